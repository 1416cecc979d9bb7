"""Variables views of tensors and arrays."""
