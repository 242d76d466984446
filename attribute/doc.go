// Package attribute says where the attributes of a request come from: its headers, cookies, query, token
// or client certificate.
package attribute
