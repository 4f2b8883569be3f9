"""What constraints cost: completing a rollout, and a thousand mechanisms at once.

    python benchmarks/mechanisms.py [--json]

`completion`: all nine coordinates of the slider-crank at three levels over 4,500 steps, against the RK4 rollout of the
3x256 tanh network whose motion is completed, in double and in single precision.
`thousand mechanisms`: 5 s of 1,000 slider-cranks with different masses, lengths and dampers in one `vmap`, in the
crank angle alone (`Minimal`), against a loop of scipy's `solve_ivp` (RK45, rtol 1e-6) over the KKT equations of the
same mechanism written in numpy. `the same by KKT` solves for the multipliers as the loop does. The loop is timed on 10
of the 1,000 in each repeat, other ones every time, and scaled by 100. With our fixed step RK4 is more accurate than the
loop; all errors are printed.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from _bench import interleaved, result, show
from scipy.integrate import solve_ivp

from fnode.field import AbstractAcceleration
from fnode.mechanisms import Minimal
from fnode.solvers import RK4, TIGHT, rollout
from fnode.systems.slider_crank import SliderCrank
from fnode.trajectory import State, Trajectory

COUNT, SAMPLED = 1000, 10
TS = np.linspace(0.0, 5.0, 151)


class Network(AbstractAcceleration):
    """The paper's network for the slider-crank, untrained."""

    layers: eqx.nn.MLP

    def acceleration(self, t, x, u=None):
        return self.layers(jnp.concatenate([x.q, x.v]))


def completion(dtype):
    crank = SliderCrank()
    ts = 0.01 * jnp.arange(4500)
    theta, omega, alpha = 3 * jnp.sin(2 * ts), 6 * jnp.cos(2 * ts), -12 * jnp.sin(2 * ts)
    minimal = Trajectory(ts, State(theta[:, None], omega[:, None]), a=alpha[:, None], columns=crank.columns)
    network = Network(eqx.nn.MLP(2, 1, 256, 3, jax.nn.tanh, dtype=dtype, key=jax.random.key(0)))
    start = State(jnp.zeros(1, dtype), jnp.zeros(1, dtype))
    roll = eqx.filter_jit(lambda field: rollout(field, start, ts.astype(dtype)))
    ours, peer = timed(lambda: crank.complete(minimal), lambda: roll(network))
    return ours, peer


def timed(*workers):
    """Median seconds of each, compilation apart."""
    ready = [lambda worker=worker: jax.block_until_ready(worker()) for worker in workers]
    for worker in ready:
        worker()
    return interleaved(*ready)


def variants():
    """Masses, rod half-length and damper of 1,000 mechanisms."""
    draw = np.random.default_rng(0).uniform
    return draw([0.5, 0.5, 0.5, 1.5, 0.0], [2.0, 2.0, 2.0, 3.0, 0.1], (COUNT, 5))


def crank_of(p):
    return SliderCrank(masses=(p[0], p[1], p[2]), l=p[3], c12=p[4])


def kkt_rate(p):
    """The nine-coordinate slider-crank as a first-order system in numpy: M a + J' lambda = F, J a = gamma."""
    m1, m2, m3, l, c12 = p  # noqa: E741
    r, g, k, rest, inertia = 1.0, 9.81, 1.0, 6.5, 0.1
    matrix, right = np.zeros((17, 17)), np.zeros(17)
    matrix[range(9), range(9)] = [m1, m1, inertia, m2, m2, inertia, m3, m3, inertia]
    jacobian = np.zeros((8, 9))
    jacobian[[0, 1, 2, 3, 4, 5, 6, 7], [0, 1, 0, 1, 3, 4, 7, 8]] = 1
    jacobian[[2, 3, 4, 5], [3, 4, 6, 7]] = -1
    right[[1, 4, 7]] = -g * m1, -g * m2, -g * m3

    def rate(t, z):
        q, v = z[:9], z[9:]
        c1, s1, c2, s2 = np.cos(q[2]), np.sin(q[2]), np.cos(q[5]), np.sin(q[5])
        jacobian[:4, 2] = r * s1, -r * c1, -r * s1, r * c1
        jacobian[2:6, 5] = -l * s2, l * c2, -l * s2, l * c2
        matrix[9:, :9], matrix[:9, 9:] = jacobian, jacobian.T
        torque = c12 * (v[2] - v[5])
        right[2], right[5], right[6] = -torque, torque, -k * (q[6] - rest)
        w1, w2 = v[2] ** 2, v[5] ** 2
        right[9:11] = -r * w1 * c1, -r * w1 * s1
        right[11:15] = r * w1 * c1 + l * w2 * c2, r * w1 * s1 + l * w2 * s2, l * w2 * c2, l * w2 * s2
        return np.concatenate([v, np.linalg.solve(matrix, right)[:9]])

    z0 = np.zeros(18)
    z0[[0, 3, 6]] = r, 2 * r + l, 2 * r + 2 * l
    return rate, z0


def minimal_of(p):
    crank = crank_of(p)
    return Minimal(crank.mechanism, crank.pose)


def thousand():
    """Median seconds and largest errors of `Minimal`, of the KKT equations and of the loop."""
    parameters = variants()
    turn, solved = iter(range(0, COUNT, SAMPLED)), []

    def loop():
        first = next(turn)
        solved.extend(one(p) for p in parameters[first : first + SAMPLED])

    def one(p):
        rate, z0 = kkt_rate(p)
        return solve_ivp(rate, (0.0, TS[-1]), z0, "RK45", t_eval=TS, rtol=1e-6, atol=1e-6).y[2]

    def together(field_of, solver):
        motion = jax.jit(
            jax.vmap(lambda p: rollout(field_of(p), SliderCrank.protocol.start, jnp.asarray(TS), solver=solver).q[:, 0])
        )
        return lambda count=COUNT: motion(jnp.asarray(parameters[:count]))

    minimal, kkt = together(minimal_of, RK4), together(crank_of, RK4)
    seconds = timed(minimal, kkt, loop)
    truth = np.asarray(together(crank_of, TIGHT)(len(solved)))
    errors = [np.abs(np.asarray(found)[: len(solved)] - truth).max() for found in (minimal(), kkt(), solved)]
    return seconds[:2], seconds[2] * COUNT / SAMPLED, errors, len(solved)


def main():
    jax.config.update("jax_enable_x64", True)
    results = {
        "completion": result(*completion(jnp.float64), "s"),
        "completion, float32": result(*completion(jnp.float32), "s"),
    }
    (minimal, kkt), peer, errors, count = thousand()
    results["thousand mechanisms"] = result(minimal, peer, "s")
    results["the same by KKT"] = result(kkt, peer, "s")
    note = "largest error of theta1 over {} mechanisms: ours {:.1e} rad, by KKT {:.1e} rad, scipy {:.1e} rad"
    show("constraints and mechanisms", results, [note.format(count, *errors)])


if __name__ == "__main__":
    main()
