"""The Debug Adapter Protocol: frames and messages, shared by both doors. No I/O."""
