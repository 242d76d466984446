// Package jwtclaims reads verified claims of JSON Web Tokens, for rules that limit by them.
//
// It is separate from httplimit so that whoever limits without tokens links no JWT library.
package jwtclaims
