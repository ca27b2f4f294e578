// temml.min.js is Temml 0.13.5, unchanged.
// Reads [{latex, display}, ...] from standard input and writes [{mathml} or {error}, ...] in the same order.
const fs = require("fs");
const path = require("path");
const vm = require("vm");

vm.runInThisContext(fs.readFileSync(path.join(__dirname, "temml.min.js"), "utf8"));

const convert = ({ latex, display }) => {
  try {
    const settings = { displayMode: display, throwOnError: true, trust: false };
    return { mathml: temml.renderToString(latex, settings) };
  } catch (error) {
    return { error: error.message.trim() };
  }
};

const formulas = JSON.parse(fs.readFileSync(0, "utf8"));
fs.writeSync(1, JSON.stringify(formulas.map(convert)));
