package adapter

import "net/http"

// Stay follows redirects on one host alone, and never from https to http: the
// declared headers go with each of them, and may be secrets.
func Stay(req *http.Request, via []*http.Request) error {
	first := via[0].URL
	if len(via) >= 5 || req.URL.Host != first.Host || first.Scheme == "https" && req.URL.Scheme != "https" {
		return http.ErrUseLastResponse
	}
	return nil
}
