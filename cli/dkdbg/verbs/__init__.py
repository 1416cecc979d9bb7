"""What a command line may say: the verbs, their options, and which of `commands` each calls."""
