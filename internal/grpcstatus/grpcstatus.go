// Package grpcstatus knows which HTTP status corresponds to the status of a gRPC response, so that rules about
// responses read the same for both.
package grpcstatus

import (
	"net/http"
	"strconv"
	"strings"
)

// byCode is the mapping of google.rpc.Code.
var byCode = [...]int{
	0:  http.StatusOK,
	1:  499, // CANCELLED: the client has disconnected
	2:  http.StatusInternalServerError,
	3:  http.StatusBadRequest,
	4:  http.StatusGatewayTimeout,
	5:  http.StatusNotFound,
	6:  http.StatusConflict,
	7:  http.StatusForbidden,
	8:  http.StatusTooManyRequests,
	9:  http.StatusBadRequest,
	10: http.StatusConflict,
	11: http.StatusBadRequest,
	12: http.StatusNotImplemented,
	13: http.StatusInternalServerError,
	14: http.StatusServiceUnavailable,
	15: http.StatusInternalServerError,
	16: http.StatusUnauthorized,
}

// HTTP returns the HTTP status that corresponds to a code of gRPC. That of an unknown code is 500, as that of UNKNOWN.
func HTTP(code int) int {
	if code < 0 || code >= len(byCode) {
		return http.StatusInternalServerError
	}
	return byCode[code]
}

// Is reports whether the content type is that of a gRPC response, whose status is in the trailer grpc-status.
func Is(contentType string) bool {
	rest, ok := strings.CutPrefix(contentType, "application/grpc")
	return ok && (rest == "" || rest[0] == '+' || rest[0] == ';')
}

// Parse returns the HTTP status for the value of the trailer grpc-status, or 0 if it is none.
func Parse(value string) int {
	code, err := strconv.Atoi(value)
	if err != nil {
		return 0
	}
	return HTTP(code)
}
