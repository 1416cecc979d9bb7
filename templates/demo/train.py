"""A small training loop: fit y = 3x - 1 by gradient descent. With torch it trains a real model, without it plain floats."""

import time

try:
    import torch
except ImportError:
    torch = None

STEPS = 200000


def batches(steps):
    """One (x, y) pair a step."""
    for step in range(steps):
        x = (step % 20) / 10.0 - 1.0
        yield step, x, 3.0 * x - 1.0


def train_plain(rate=0.1):
    weight, bias = 0.0, 0.0
    for step, x, y in batches(STEPS):
        error = weight * x + bias - y
        weight -= rate * error * x
        bias -= rate * error  # breakpoint
        time.sleep(0.005)
    return weight, bias


def train_torch(rate=0.1):
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    for step, x, y in batches(STEPS):
        inputs, target = torch.tensor([[x]]), torch.tensor([[y]])
        loss = torch.nn.functional.mse_loss(model(inputs), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()  # breakpoint
        time.sleep(0.005)
    return model.weight.item(), model.bias.item()


if __name__ == "__main__":
    print("training", "with torch" if torch else "with plain floats", flush=True)
    print("fitted", train_torch() if torch else train_plain(), flush=True)
