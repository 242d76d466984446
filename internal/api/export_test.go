package api

import "cmp"

// Routes are what is served, as the document writes it: what takes any method stands under GET.
func Routes() (all []string) {
	for _, r := range new(api).routes() {
		all = append(all, cmp.Or(r.method, "GET")+" "+r.path)
	}
	return all
}
