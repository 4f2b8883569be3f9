"""The paper's inner loops against plain eager PyTorch: same network, data and dtype, one core, one run.

    python benchmarks/train_step.py [--json]

Three figures, microseconds per step: an Adam step at batch 1 (the paper's Algorithm 1), an MBD-NODE step (one RK4 step
inside the loss) and an RK4 rollout step. Ours runs inside `lax.scan`, as `fnode` trains; compile time is shown apart.
"""

import math
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
from _bench import interleaved, one_core, result, show

from fnode.models import FNODE
from fnode.solvers import RK4, rollout
from fnode.systems import TripleMassSpringDamper, recordings
from fnode.training import Adam, DerivativeLoss, Labelled, fit
from fnode.training.compilation import LONG

try:
    import torch
except ModuleNotFoundError:
    sys.exit("this benchmark compares with PyTorch: pip install 'fnode[peers]'")

EPOCHS, PEER_STEPS, DT, LEARNING_RATE = math.ceil(LONG / 300), 150, 0.01, 1e-3
SYSTEM = TripleMassSpringDamper()


class OneStep(DerivativeLoss):
    """MBD-NODE: the squared error after one RK4 step of the learned field."""

    def __call__(self, field, sample):
        start, after = sample
        x = RK4.step(field, 0.0, start, DT, lambda t: None)
        return jnp.mean((x.q - after.q) ** 2 + (x.v - after.v) ** 2)


def main():
    one_core()
    torch.set_num_threads(1)
    data = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), recordings(SYSTEM, key=jax.random.key(0))[0].truth[:300])
    samples = Labelled(data.ts, data.x, None, data.a)
    pairs = (data.x, jax.tree.map(lambda leaf: jnp.roll(leaf, -1, axis=0), data.x))
    keys = jax.random.split(jax.random.key(1), 1)
    models = jax.tree.map(
        lambda leaf: leaf[None] if isinstance(leaf, jax.Array) else leaf,
        FNODE.untrained(SYSTEM.columns, width=256, depth=2, key=jax.random.key(0)),
    )
    compile_seconds = {}

    def ours(name, loss, data):
        def train():
            fitted = fit(models, loss, data, Adam(LEARNING_RATE), epochs=EPOCHS, batch=1, keys=keys)
            compile_seconds.setdefault(name, fitted.seconds_compile)
            measured[name].append(fitted.seconds_train / (EPOCHS * 300))

        return train

    measured = {"adam_step": [], "mbd_node_step": []}
    field = jax.tree.map(lambda leaf: leaf[0] if isinstance(leaf, jax.Array) else leaf, models)
    ts = DT * jnp.arange(1001, dtype=jnp.float32)
    began = time.perf_counter()
    jax.block_until_ready(rollout(field, data.start, ts))
    compile_seconds["rk4_rollout"] = time.perf_counter() - began

    peer = Peer(np.asarray(data.states), np.asarray(data.a))
    workers = {
        "adam_step": (ours("adam_step", DerivativeLoss(), samples), peer.adam_step),
        "mbd_node_step": (ours("mbd_node_step", OneStep(), pairs), peer.mbd_node_step),
        "rk4_rollout": (lambda: jax.block_until_ready(rollout(field, data.start, ts)), peer.rk4_rollout),
    }
    results = {}
    for name, (mine, theirs) in workers.items():
        mine(), theirs()  # warm up
        own, other = interleaved(mine, theirs, repeats=7)
        # `fit` compiles anew on every call; its own clock leaves that out.
        own = float(np.median(measured[name][1:])) if name in measured else own / 1000
        results[name] = result(1e6 * own, 1e6 * other / PEER_STEPS, "us")
    compiled = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in compile_seconds.items())
    show(
        "per step, float32, network 2x256, triple mass-spring-damper, batch 1, one core (peer: eager PyTorch)",
        results,
        [f"compile time, once per program: {compiled}"],
    )


class Peer:
    """The same loops as the paper's scripts write them: one eager PyTorch call after another."""

    def __init__(self, states, accelerations):
        torch.manual_seed(0)
        self.states, self.accelerations = torch.from_numpy(states.copy()), torch.from_numpy(accelerations.copy())
        tanh, linear = torch.nn.Tanh, torch.nn.Linear
        self.network = torch.nn.Sequential(linear(6, 256), tanh(), linear(256, 256), tanh(), linear(256, 3))
        self.optimiser = torch.optim.Adam(self.network.parameters(), lr=LEARNING_RATE)

    def rate(self, z):
        return torch.cat([z[..., 3:], self.network(z)], dim=-1)

    def rk4_step(self, z):
        k1 = self.rate(z)
        k2 = self.rate(z + DT / 2 * k1)
        k3 = self.rate(z + DT / 2 * k2)
        k4 = self.rate(z + DT * k3)
        return z + DT / 6 * (k1 + 2 * k2 + 2 * k3 + k4)

    def adam_step(self):
        for i in torch.randperm(299)[:PEER_STEPS]:
            loss = torch.nn.functional.mse_loss(self.network(self.states[i : i + 1]), self.accelerations[i : i + 1])
            self.update(loss)

    def mbd_node_step(self):
        for i in torch.randperm(299)[:PEER_STEPS]:
            loss = torch.nn.functional.mse_loss(self.rk4_step(self.states[i : i + 1]), self.states[i + 1 : i + 2])
            self.update(loss)

    def update(self, loss):
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()

    def rk4_rollout(self):
        with torch.no_grad():
            z = self.states[0]
            for _ in range(PEER_STEPS):
                z = self.rk4_step(z)


if __name__ == "__main__":
    main()
