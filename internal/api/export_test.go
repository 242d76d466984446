package api

import "cmp"

// Routes returns the served routes, as the document writes them: a route for any method is listed under GET.
func Routes() (all []string) {
	for _, r := range new(api).routes() {
		all = append(all, cmp.Or(r.method, "GET")+" "+r.path)
	}
	return all
}
