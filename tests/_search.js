// Print the pages that the search of built HTML pages finds for each query, best first, as JSON.
//     node _search.js FOLDER QUERY...
// The scripts are those of search.html, in its order, without a browser's document.
const fs = require("fs");
const path = require("path");
const vm = require("vm");

const [folder, ...queries] = process.argv.slice(2);
const nothing = () => null;
globalThis.window = globalThis;
globalThis.localStorage = { getItem: nothing, setItem: nothing };
globalThis.document = {
  readyState: "loading",
  documentElement: { dataset: {} },
  addEventListener: nothing,
  getElementById: nothing,
};
const page = fs.readFileSync(path.join(folder, "search.html"), "utf8");
for (const [, name] of page.matchAll(/<script [^>]*src="([^"?]+)[^>]*>/g)) {
  const isOfSearch = /(documentation_options|doctools|sphinx_highlight|searchtools|language_data|searchindex)\.js$/;
  if (isOfSearch.test(name)) vm.runInThisContext(fs.readFileSync(path.join(folder, name), "utf8"));
}
const found = queries.map((query) =>
  vm
    .runInThisContext("(query) => Search._performSearch(...Search._parseQuery(query))")(query)
    .reverse()
    .map(([docname]) => docname),
);
console.log(JSON.stringify(found));
