// Package wire is the JSON of the decision API: calls and conclusions as they are asked, verdicts and
// problems as they are answered, each both ways.
//
// It is apart from the server so that the client says the very same things without linking one. What
// is asked is read strictly, as a misspelt field would be a limit that silently does not apply: a name
// that is unknown or comes twice, a wrong type, anything out of bounds is a mistake, and all mistakes
// are told at once, each with its place. What is answered is read leniently, as a newer server may say
// more.
package wire
