"""Models of transformers, timm and diffusers through both of PyTorch's doors: values, gradients and speed."""
