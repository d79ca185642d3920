package validate

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/certplane/certplane/internal/api/rfc8555"
)

// A host without servers of its own resolves names as other programs there do: from
// its file, then from its name servers. What may be dialled is judged all the same.
func TestNamesInFile(t *testing.T) {
	refused := want{rfc8555.ProblemConnection, "address not permitted", true, false}
	const usual = "127.0.0.1 other.example A.example # a comment\n"
	for _, tc := range []struct {
		reason, hosts, host string
		allow               []string
		servers             bool
		want                want
	}{
		{reason: "the name", hosts: usual, host: "a.example"},
		{reason: "the first of two", hosts: "127.0.0.1 a.example\n10.9.9.9 a.example\n", host: "a.example"},
		{reason: "nonsense besides", hosts: "a.example\nx a.example\n\n127.0.0.1\n127.0.0.1 a.example", host: "a.example"},
		{reason: "localhost, which is named", hosts: "127.0.0.1 localhost\n", host: "localhost", allow: []string{"localhost"}},
		{reason: "localhost", hosts: "127.0.0.1 localhost\n", host: "localhost", want: refused},
		{reason: "an address that is not permitted", hosts: "169.254.169.254 a.example\n", host: "a.example", want: refused},
		{reason: "in a comment", hosts: "127.0.0.1 other.example # a.example\n", host: "a.example",
			want: want{rfc8555.ProblemServerInternal, "the server has no name servers", false, true}},
		{reason: "the endpoint has servers", hosts: usual, host: "a.example", servers: true,
			want: want{rfc8555.ProblemDNS, "a.example has no address", false, false}},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			w := newWorld(t)
			w.site(t, "127.0.0.1", func(rw http.ResponseWriter, _ *http.Request) { fmt.Fprint(rw, key) })
			dir := t.TempDir()
			w.cfg.DNS.Hosts, w.cfg.DNS.ResolvConf = filepath.Join(dir, "hosts"), filepath.Join(dir, "resolv.conf")
			w.cfg.Names.Allow = tc.allow
			if err := os.WriteFile(w.cfg.DNS.Hosts, []byte(tc.hosts), 0o600); err != nil {
				t.Fatal(err)
			}
			if !tc.servers {
				w.cfg.DNS.Servers = nil
			}
			got := w.validate(t, rfc8555.ChallengeHTTP01, tc.host)
			assertResult(t, got, tc.want)
			if got.Valid && got.Record.Resolver != w.cfg.DNS.Hosts {
				t.Errorf("record %+v", got.Record)
			}
		})
	}
}
