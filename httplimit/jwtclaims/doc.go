// Package jwtclaims reads verified claims of JSON Web Tokens, for rules that limit by them.
//
// It is separate from httplimit so that programs that limit without tokens link no JWT library.
package jwtclaims
