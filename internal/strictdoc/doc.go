// Package strictdoc parses untrusted YAML and JSON into nodes that know their positions. Rules, Envoy's rate
// limit files and the configuration are all read here.
//
// It reads the unambiguous part of YAML 1.2: block and flow collections, plain, quoted and block scalars,
// comments. It rejects everything that gives a text a hidden meaning or makes it grow when it is read:
// tags, anchors, aliases, merge keys, directives, explicit keys, several documents. Options.Anchors allows
// anchors, aliases and tags for files that other programs read too. JSON is YAML in flow style.
//
// Reading takes time and memory in proportion to the text, whatever the text is: it reads the text once, counts
// nodes before it makes them, and stops at the first error.
package strictdoc
