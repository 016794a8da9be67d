"""A transformer block trains on the systolic array, under PyTorch: python examples/train_on_systolic_array_torch.py"""

import copy

import torch
from systolic_array import SystolicArray
from torch import nn

import xloom.torch as xt
from xloom.pjrt import Client, SimCompiler

BATCH, TIME, MODEL, HEADS, HIDDEN = 2, 12, 48, 3, 72
STEPS = 4

compiler = SimCompiler(SystolicArray, devices=1)
client = Client(compiler)
xt.use_backend(client)  # the device xla is a systolic array from here on


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention_norm, self.hidden_norm = nn.RMSNorm(MODEL), nn.RMSNorm(MODEL)
        self.qkv, self.out = nn.Linear(MODEL, 3 * MODEL, bias=False), nn.Linear(MODEL, MODEL, bias=False)
        self.up, self.down = nn.Linear(MODEL, HIDDEN), nn.Linear(HIDDEN, MODEL)

    def forward(self, x):
        parts = self.qkv(self.attention_norm(x)).chunk(3, -1)
        q, k, v = (part.view(BATCH, TIME, HEADS, -1).transpose(1, 2) for part in parts)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(BATCH, TIME, MODEL))
        return x + self.down(nn.functional.gelu(self.up(self.hidden_norm(x)), approximate="tanh"))


def train(model, device):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y = inputs.to(device), targets.to(device)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


torch.manual_seed(0)
inputs, targets = torch.randn(2, BATCH, TIME, MODEL)
start = Block()
reference, ours = copy.deepcopy(start), copy.deepcopy(start).to("xla")
losses, expected = train(ours, "xla"), train(reference, "cpu")
print("losses", losses, "and on the CPU", expected)
assert losses[-1] < losses[0]
torch.testing.assert_close(losses, expected, rtol=2**-8, atol=0)
for (name, value), other, before in zip(
    reference.named_parameters(), ours.parameters(), start.parameters(), strict=True
):
    bound = 2**-6 * (value - before).abs().max()  # of what training has changed
    error = (other.cpu() - value).abs().max()
    print(f"{name:22} is {error / bound:4.2f} of the bound away")
    assert error <= bound

(device,) = compiler.simulators
print(device.ledger.report(24))
