// Prints what Express's cookie-parser and the package cookie read. Run: npm install cookie cookie-parser && node cookies.js
const lines = JSON.parse(require("fs").readFileSync("cookies.json"));
const { parseCookie } = require("cookie");
const parser = require("cookie-parser")();
for (const line of lines) {
  const request = { headers: { cookie: line } };
  parser(request, {}, () => {});
  console.log(JSON.stringify([line, request.cookies.sid ?? null, parseCookie(line).sid ?? null]));
}
