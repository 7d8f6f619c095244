import numpy as np

from skrbm import CategoricalRBM
from skrbm.inference import Gibbs
from skrbm.sequences import contact_scores, effective_couplings, encode, ranked_pairs

rng = np.random.default_rng(0)  # a family of hairpins: site i pairs with site 11 - i, up to i = 3
partner = dict(zip("ACGU", "UGCA", strict=True))
strands = rng.choice(list("ACGU"), size=(1000, 8))
family = encode(["".join([*s, *(partner[a] for a in s[3::-1])]) for s in strands], "rna")
new, family = family[:200], family[200:]

letters = [range(5)] * 12  # the gap and four letters at each of 12 sites
rbm = CategoricalRBM(
    10, categories=letters, hidden="double_relu", inference=Gibbs(start="tempered")
)
rbm.set_params(handle_unknown="ignore", n_iter=20, random_state=0).fit(family)

score, baseline = rbm.score(new), -12 * np.log(4)  # all letters are equally frequent
contacts = ranked_pairs(contact_scores(effective_couplings(rbm, family), gap=0), n_pairs=4)
print(f"{score:.1f} nats per new sequence, {baseline:.1f} with independent sites")
print(f"contacts: {contacts.tolist()}")
