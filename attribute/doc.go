// Package attribute says where the attributes of a request come from: its headers, cookies, query, token,
// client certificate or JSON body.
package attribute
