"""Aligned sequences of proteins, RNA and DNA: files, weights, contacts and logos."""

from ._alphabet import codes_of, decode, encode, letters_of, one_hot
from ._couplings import contact_scores, effective_couplings, ranked_pairs, zero_sum
from ._design import at_temperature, design
from ._fasta import Alignment, read_fasta, write_fasta
from ._logo import LogoDisplay
from ._pgm import read_pgm
from ._readers import potts_machine, read_adabmdca, read_rbms
from ._statistics import connected_correlations, pair_correlation, pair_statistics, profile
from ._weights import sequence_clusters, sequence_weights

__all__ = [
    "Alignment",
    "LogoDisplay",
    "at_temperature",
    "codes_of",
    "connected_correlations",
    "contact_scores",
    "decode",
    "design",
    "effective_couplings",
    "encode",
    "letters_of",
    "one_hot",
    "pair_correlation",
    "pair_statistics",
    "potts_machine",
    "profile",
    "ranked_pairs",
    "read_adabmdca",
    "read_fasta",
    "read_pgm",
    "read_rbms",
    "sequence_clusters",
    "sequence_weights",
    "write_fasta",
    "zero_sum",
]
