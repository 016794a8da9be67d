"""Programs whose kernels most others need: `xloom library` compiles them ahead."""
