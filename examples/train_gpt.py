"""Trains a small GPT on a periodic text: `python train_gpt.py [--door compile|device|eager] [--steps 200]`."""

import argparse
import time

import torch
from torch import nn
from torch.nn import functional

VOCABULARY, LENGTH, WIDTH, HEADS, LAYERS = 128, 64, 128, 4, 3


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.before_attention, self.before_mlp = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        q, k, v = (
            part.view(batch, length, HEADS, WIDTH // HEADS).transpose(1, 2)
            for part in self.qkv(self.before_attention(x)).split(WIDTH, dim=2)
        )
        attended = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.mlp(self.before_mlp(x))


class Gpt(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.Sequential(*[Block() for _ in range(LAYERS)])
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        places = torch.arange(text.shape[1], device=text.device)
        return self.head(self.norm(self.blocks(self.tokens(text) + self.places(places))))


def problem() -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    """The model, texts, and the same texts one token on."""
    torch.manual_seed(0)
    model = Gpt()
    period = torch.randint(0, VOCABULARY, (8, 11))
    text = period.repeat(1, 1 + LENGTH // 11 + 1)[:, : LENGTH + 1]
    return model, text[:, :-1].contiguous(), text[:, 1:].contiguous()


def loss_of(model: nn.Module, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--door", choices=["compile", "device", "eager"], default="compile")
    parser.add_argument("--steps", type=int, default=200)
    options = parser.parse_args()
    model, inputs, targets = problem()
    if options.door == "device":
        import xloom.torch

        device = xloom.torch.device()
        model, inputs, targets = model.to(device), inputs.to(device), targets.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loss_now = torch.compile(loss_of, backend="xloom") if options.door == "compile" else loss_of
    start = time.perf_counter()
    for step in range(options.steps):
        optimizer.zero_grad()
        loss = loss_now(model, inputs, targets)
        loss.backward()
        optimizer.step()
        if step % 50 == 0 or step == options.steps - 1:
            print(f"step {step:4d}: loss {loss.item():.4f}, {time.perf_counter() - start:.1f} s")


if __name__ == "__main__":
    main()
