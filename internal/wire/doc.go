// Package wire is the JSON of the decision API, in both directions: requests, settlements, releases and renewals;
// verdicts and problems.
//
// It is separate from the server so that the client uses the same format without linking one. Requests are read
// strictly, because a misspelt field could mean a limit that silently does not apply: unknown and duplicate names,
// wrong types and values out of bounds are errors. All errors are reported at once, each with its position. Responses
// are read leniently, since a newer server may add fields.
package wire
