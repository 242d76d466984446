// Package ruleservice is the only way to change rules: the API, the CLI and the console all write through it. It
// compiles a change, saves it in the database and, if nodes read from Redis, publishes it there.
//
// A saved change is final. Publishing may fail safely: [Service.Run] publishes the database's rules until it
// succeeds, and nodes keep polling.
//
// It is a separate package because the database does not parse documents, and package rules does not know about
// databases.
package ruleservice
