// Package strictdoc reads YAML and JSON written by people or sent by strangers into nodes that know
// their positions. Rules, Envoy's rate limit files and the configuration are all read here.
//
// It reads the part of YAML 1.2 that says what it means: block and flow collections, plain, quoted
// and block scalars, comments. It refuses what makes a text mean something else than it says or grow
// when it is read: tags, anchors, aliases, merge keys, directives, explicit keys, several documents.
// Options.Anchors allows anchors, aliases and tags for files that other programs read too. JSON is
// YAML in flow style.
//
// Reading takes time and memory in proportion to the text, whatever the text is: it passes over the
// text once, counts nodes before it makes them, and stops at the first error.
package strictdoc
