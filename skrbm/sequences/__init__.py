"""Aligned sequences of proteins, RNA and DNA: files, weights, contacts, design and logos."""

from ._alphabet import decode, encode
from ._couplings import contact_scores, effective_couplings, ranked_pairs
from ._design import design
from ._fasta import Alignment, read_fasta, write_fasta
from ._logo import LogoDisplay
from ._statistics import connected_correlations, pair_correlation, profile
from ._weights import sequence_clusters, sequence_weights

__all__ = [
    "Alignment",
    "LogoDisplay",
    "connected_correlations",
    "contact_scores",
    "decode",
    "design",
    "effective_couplings",
    "encode",
    "pair_correlation",
    "profile",
    "ranked_pairs",
    "read_fasta",
    "sequence_clusters",
    "sequence_weights",
    "write_fasta",
]
