"""Settings for all tests."""

import torch

# Tests run on small tensors, where threads cost more than they bring.
torch.set_num_threads(1)
