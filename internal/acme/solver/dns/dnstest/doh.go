package dnstest

import (
	"io"
	"net/http"

	"github.com/miekg/dns"
)

// ServeHTTP answers DNS over HTTPS (RFC 8484) from the records of the server.
// It refuses what does not conform.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	const mediaType = "application/dns-message"
	if r.Method != http.MethodPost || r.Header.Get("Content-Type") != mediaType || r.Header.Get("Accept") != mediaType {
		http.Error(w, "POST application/dns-message", http.StatusBadRequest)
		return
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, dns.MaxMsgSize))
	query := new(dns.Msg)
	if err != nil || query.Unpack(body) != nil || len(query.Question) != 1 {
		http.Error(w, "not a query", http.StatusBadRequest)
		return
	}
	s.record(query, true)
	packed, err := s.reply(query).Pack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", mediaType)
	_, _ = w.Write(packed)
}
