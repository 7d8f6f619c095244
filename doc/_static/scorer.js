/* Order of search results: the guide, then other pages of text, the API, and notes for developers. */
var Scorer = {
  score: (result) => {
    const [docname, , , , score] = result;
    const weights = [
      [/^guide\/index$/, 0],
      [/^guide\//, 40],
      [/^(start|choose|tasks)$/, 20],
      [/^(theory|auto_examples)\//, 10],
      [/^(developers|reproductions)\/|^(benchmarks|reliability|changelog)$/, -40],
    ];
    const found = weights.find(([pattern]) => pattern.test(docname));
    return score + (found ? found[1] : 0);
  },
  objNameMatch: 60, // a name of the API, written in full
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
