"""A stand-in for the kernels of QuACK, which need a Hopper GPU."""


class QuackStandIn:
    """Computes what the kernels of QuACK do, and records the calls."""

    def __init__(self):
        self.calls = []

    def product(self, x, weight, bias):
        self.calls.append("product")
        return x @ weight.T if bias is None else x @ weight.T + bias

    def product_relu(self, x, weight):
        self.calls.append("product_relu")
        return (x @ weight.T).clamp(min=0)

    def product_where_positive(self, x, weight, states, scale):
        self.calls.append("product_where_positive")
        return (x @ weight.T).where(states > 0, 0) * scale

    def add_product(self, residual, x, weight, eps):
        self.calls.append("add_product")
        total = residual + x @ weight.T
        return total, (total.square().mean(1) + eps).rsqrt()

    def deferred_product(self, x, scales, weight, activation):
        self.calls.append("deferred_product")
        scaled = (x @ weight.T) * scales[:, None]
        return scaled if activation is None else scaled.clamp(min=0)
