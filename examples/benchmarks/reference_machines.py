"""log Z and likelihoods of published RBMs, compared with known values.

    SKRBM_DATA=... python examples/benchmarks/reference_machines.py [--chains 500]

The RBM with 15 hidden units is enumerated: log Z = 215.13840552531667, and the mean log-likelihood
of MNIST's test images, thresholded, is -168.8388544. For the CD25 RBM of Salakhutdinov and Murray
(500 hidden units) the published AIS estimate of log Z is 451.28, with -86.34 nats on their
binarization of the test images; here AIS runs over their 14 500 temperatures, and reverse AIS
starts from the ends of long Gibbs chains that began at training images.
"""

import argparse
import time

import numpy as np
from _common import data_folder, heading, mnist, published_machine
from scipy.io import loadmat

from skrbm import BernoulliRBM
from skrbm.arrays import Columns
from skrbm.evaluation import AIS, log_partition, reverse_log_partition


def enumerated(folder):
    m = loadmat(folder / "mnistvh_15hidden.mat")
    rbm = BernoulliRBM.from_parameters(
        m["vishid"].T, m["hidbiases"].ravel(), m["visbiases"].ravel()
    )
    log_z, score = log_partition(rbm, "exact").value, rbm.score(mnist("test")[0])
    print(f"15 hidden units: log Z {log_z:.11f}, off by {abs(log_z - 215.13840552531667):.1e}")
    print(f"  test log-likelihood {score:.7f}, off by {abs(score + 168.8388544):.1e}\n")


def annealed(folder, n_chains):
    rbm = published_machine()
    packed = np.load(folder / "mnist_randomly_binarised_papamakarios.npz")
    train, test = (np.unpackbits(packed[part], axis=1) for part in ("train", "test"))
    base = rbm.machine_.units[0].initial_theta(Columns(train))
    method = AIS(n_chains, "salakhutdinov2008")
    mean = -float(np.mean(rbm.free_energy(test)))
    begin = time.perf_counter()
    forward = log_partition(rbm, method, base=base, random_state=0)
    seconds = time.perf_counter() - begin
    backward = reverse_log_partition(
        rbm, train[:n_chains], method=method, burn_in=2000, base=base, random_state=0
    )
    print(f"CD25, 500 hidden units, {n_chains} chains: published log Z 451.28, test -86.34")
    for name, result in (("AIS", forward), ("reverse AIS", backward)):
        distance = abs(result.value - 451.28) / result.std
        print(
            f"  {name:12s} log Z {result.value:.2f}, standard error {result.std:.3f}, "
            f"ESS {result.ess:.0f}, {distance:.1f} standard errors from the published value; "
            f"test {mean - result.value:.2f}"
        )
    print(f"  ({seconds:.0f} s for AIS)")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chains", type=int, default=500)
    args = parser.parse_args()
    heading(__file__, args)
    if data_folder() is None:
        raise SystemExit("set the environment variable SKRBM_DATA to the folder of the machines")
    folder = data_folder() / "rbm-reference"
    enumerated(folder)
    annealed(folder, args.chains)


if __name__ == "__main__":
    main()
