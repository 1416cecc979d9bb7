"""One step on the GPU."""

import torch

if __name__ == "__main__":
    device = torch.device("cuda")
    model = torch.nn.Linear(4, 1).to(device)
    model(torch.ones(2, 4, device=device)).sum().backward()
