//go:build linux

package rfc2136

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	gocmp "github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"github.com/certplane/certplane/internal/acme/solver/dns/dnstest"
	"github.com/certplane/certplane/internal/acme/solver/dns/provider"
)

// software is a name server that tests run as a program.
type software struct {
	name, program string
	// debian is the package of Debian that has the program.
	debian string
	args   []string // without the configuration, which comes last
	// config is a format with the folder, the port, the algorithm in lower case
	// and the secret. The key "certplane" may update TXT records of one name, as
	// docs/acme.md says.
	config string
}

var softwares = []software{
	{name: "BIND", program: "named", debian: "bind9", args: []string{"-g", "-n", "1", "-c"}, config: `
options {
	directory "%[1]s";
	listen-on port %[2]d { 127.0.0.1; };
	listen-on-v6 { none; };
	pid-file none;
	session-keyfile none;
	recursion no;
	dnssec-validation no;
	notify no;
	empty-zones-enable no;
};
controls {};
key certplane { algorithm %[3]s; secret "%[4]s"; };
zone "example.com" {
	type primary;
	file "example.com.zone";
	update-policy { grant certplane name _acme-challenge.example.com. TXT; };
};
`},
	{name: "Knot DNS", program: "knotd", debian: "knot", args: []string{"-c"}, config: `
server:
    rundir: "%[1]s"
    listen: "127.0.0.1@%[2]d"
    udp-workers: 1
    tcp-workers: 1
    background-workers: 1
log:
  - target: stderr
    any: info
database:
    storage: "%[1]s"
key:
  - id: certplane
    algorithm: %[3]s
    secret: "%[4]s"
acl:
  - id: certplane
    key: certplane
    action: update
    update-type: [TXT]
    update-owner: name
    update-owner-match: equal
    update-owner-name: [_acme-challenge.example.com.]
zone:
  - domain: example.com
    storage: "%[1]s"
    file: example.com.zone
    acl: certplane
`},
}

const zoneFile = `$TTL 300
@ IN SOA ns.example.com. admin.example.com. 1 3600 600 86400 60
@ IN NS ns.example.com.
ns IN A 127.0.0.1
`

// startLimit is how long a name server may take to answer.
const startLimit = 60 * time.Second

// start runs a name server with one key and the zone example.com until the test
// ends, and returns its address. It skips the test where this host cannot run
// such a server.
func (s software) start(t *testing.T, algorithm string) string {
	t.Helper()
	program := s.find(t)
	var err error
	for range 3 { // another program can take the port
		var address string
		if address, err = s.run(t, program, algorithm); err == nil {
			return address
		}
		switch text := strings.ToLower(err.Error()); {
		case strings.Contains(text, "permission denied"):
			t.Skipf("not run: %s may not read the files of a test, perhaps because of its AppArmor profile: %v", program, err)
		case algorithm == "hmac-md5" && strings.Contains(text, algorithm):
			t.Skipf("not run: this %s does not have hmac-md5: %v", s.name, err)
		}
	}
	t.Fatal(err)
	return ""
}

// find returns the path of the program. The PATH of users often has no sbin.
func (s software) find(t *testing.T) string {
	t.Helper()
	for _, at := range []string{s.program, "/usr/sbin/" + s.program} {
		if path, err := exec.LookPath(at); err == nil {
			return path
		}
	}
	t.Skipf("not run: there is no %s; Debian's package %q has it", s.program, s.debian)
	return ""
}

func (s software) run(t *testing.T, program, algorithm string) (string, error) {
	dir, port := t.TempDir(), freePort(t)
	config := filepath.Join(dir, "config")
	for path, text := range map[string]string{
		config:                                 fmt.Sprintf(s.config, dir, port, algorithm, secret),
		filepath.Join(dir, "example.com.zone"): zoneFile,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	output := new(bytes.Buffer) // read after done only
	cmd := exec.CommandContext(ctx, program, append(slices.Clone(s.args), config)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = dir, output, output, 5*time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // a test that is killed leaves nothing
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { _ = cmd.Wait(); close(done) }()
	stop := func() { cancel(); <-done }
	t.Cleanup(stop)
	address := fmt.Sprintf("127.0.0.1:%d", port)
	if err := answers(address, done); err != nil {
		stop()
		return "", fmt.Errorf("%s: %w:\n%s", program, err, output)
	}
	return address, nil
}

// freePort returns a port that is free for UDP and TCP.
func freePort(t *testing.T) int {
	t.Helper()
	packets, streams, err := dnstest.Listen("127.0.0.1", "0")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = streams.Close(), packets.Close()
	return streams.Addr().(*net.TCPAddr).Port
}

// answers waits until a server answers for its zone.
func answers(address string, done <-chan struct{}) error {
	client := &dns.Client{Net: "tcp", Timeout: time.Second}
	limit := time.After(startLimit)
	for {
		reply, _, err := client.Exchange(new(dns.Msg).SetQuestion("example.com.", dns.TypeSOA), address)
		if err == nil && reply.Authoritative && len(reply.Answer) == 1 {
			return nil
		}
		select {
		case <-done:
			return errors.New("it has ended")
		case <-limit:
			return fmt.Errorf("no answer within %s", startLimit)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// txt returns the values of a name, sorted.
func txt(t *testing.T, address, name string) []string {
	t.Helper()
	client := &dns.Client{Net: "tcp", Timeout: timeout}
	reply, _, err := client.Exchange(new(dns.Msg).SetQuestion(name, dns.TypeTXT), address)
	if err != nil {
		t.Fatal(err)
	}
	var values []string
	for _, record := range reply.Answer {
		values = append(values, strings.Join(record.(*dns.TXT).Txt, ""))
	}
	slices.Sort(values)
	return values
}

// realSpec is what an issuer for such a server says.
func realSpec(address, algorithm string) *acmev1.ACMEIssuerDNS01ProviderRFC2136 {
	spec := specFor(&dnstest.Server{Addr: address}, nil)
	spec.TSIGKeyName, spec.TSIGAlgorithm = "certplane", algorithm
	return spec
}

// TestRealServers: real name servers accept the updates, and keep the values of
// others.
func TestRealServers(t *testing.T) {
	for _, s := range softwares {
		for _, algorithm := range []string{"HMACMD5", "HMACSHA1", "HMACSHA256", "HMACSHA512"} {
			t.Run(s.name+" "+algorithm, func(t *testing.T) {
				address := s.start(t, strings.Replace(strings.ToLower(algorithm), "hmac", "hmac-", 1))
				for _, protocol := range []acmev1.RFC2136UpdateProtocol{acmev1.RFC2136UpdateProtocolUDP, acmev1.RFC2136UpdateProtocolTCP} {
					spec := realSpec(address, algorithm)
					spec.Protocol = protocol
					p, err := New(t.Context(), env(map[string]string{"secret": secret}), spec)
					if err != nil {
						t.Fatal(err)
					}
					changes(t, p, address, string(protocol))
				}
			})
		}
	}
}

// changes presents two values of one name, in both orders, and removes them one
// after the other. All that is done twice changes nothing.
func changes(t *testing.T, p provider.Provider, address, protocol string) {
	t.Helper()
	a, b := record, record
	a.Value, b.Value = "a-"+value, "b-"+value
	for _, order := range [][2]provider.Record{{a, b}, {b, a}} {
		first, second := order[0], order[1]
		for i, step := range []struct {
			do   func(context.Context, provider.Record) error
			with provider.Record
			want []string
		}{
			{p.CleanUp, first, nil},
			{p.Present, first, []string{first.Value}},
			{p.Present, first, []string{first.Value}},
			{p.Present, second, []string{a.Value, b.Value}},
			{p.Present, first, []string{a.Value, b.Value}},
			{p.CleanUp, first, []string{second.Value}},
			{p.CleanUp, first, []string{second.Value}},
			{p.CleanUp, second, nil},
		} {
			if err := step.do(t.Context(), step.with); err != nil {
				t.Fatalf("%s, step %d: %v", protocol, i, err)
			}
			if diff := gocmp.Diff(step.want, txt(t, address, name)); diff != "" {
				t.Fatalf("%s, values after step %d (-want +got):\n%s", protocol, i, diff)
			}
		}
	}
}

// TestRealServersRefuse: what errors say when a real name server refuses an
// update.
func TestRealServersRefuse(t *testing.T) {
	const notAuth = "DNS update failed: dns: bad authentication (the server replied NOTAUTH)"
	tests := []struct {
		reason string
		change func(*acmev1.ACMEIssuerDNS01ProviderRFC2136)
		with   func(*provider.Record)
		secret string
		ahead  time.Duration // our clock
		err    string
		knot   string // what Knot DNS says instead
	}{
		{reason: "a wrong secret", secret: "YW5vdGhlciBzZWNyZXQ=", err: notAuth + " (the server reports the TSIG error BADSIG)"},
		{reason: "an unknown key", change: func(s *acmev1.ACMEIssuerDNS01ProviderRFC2136) { s.TSIGKeyName = "nobody" }, err: notAuth + " (the server reports the TSIG error BADKEY)"},
		{reason: "another algorithm", change: func(s *acmev1.ACMEIssuerDNS01ProviderRFC2136) { s.TSIGAlgorithm = "HMACSHA512" }, err: notAuth + " (the server reports the TSIG error BADKEY)"},
		{reason: "a clock that is wrong", ahead: time.Hour, err: notAuth + " (the server reports the TSIG error BADTIME)"},
		{reason: "no signature", change: func(s *acmev1.ACMEIssuerDNS01ProviderRFC2136) { s.TSIGKeyName = "" }, err: "DNS update failed. Server replied: REFUSED", knot: "DNS update failed. Server replied: NOTAUTH"},
		{reason: "a name that the key may not change", with: func(r *provider.Record) { r.FQDN = "www.example.com." }, err: "DNS update failed. Server replied: REFUSED", knot: notAuth + " (the server reports the TSIG error BADKEY)"},
		{reason: "a zone that it does not have", with: func(r *provider.Record) { r.Zone, r.FQDN = "test.", "a.test." }, err: notAuth, knot: "DNS update failed. Server replied: NOTAUTH"},
	}
	for _, s := range softwares {
		t.Run(s.name, func(t *testing.T) {
			address := s.start(t, "hmac-sha256")
			for _, tc := range tests {
				for _, protocol := range []acmev1.RFC2136UpdateProtocol{acmev1.RFC2136UpdateProtocolUDP, acmev1.RFC2136UpdateProtocolTCP} {
					spec := realSpec(address, "HMACSHA256")
					spec.Protocol = protocol
					if tc.change != nil {
						tc.change(spec)
					}
					environment := env(map[string]string{"secret": cmp.Or(tc.secret, secret)})
					environment.Now = func() time.Time { return time.Now().Add(tc.ahead) }
					p, err := New(t.Context(), environment, spec)
					if err != nil {
						t.Fatal(err)
					}
					with := record
					if tc.with != nil {
						tc.with(&with)
					}
					want := tc.err
					if s.program == "knotd" {
						want = cmp.Or(tc.knot, want)
					}
					if err := p.Present(t.Context(), with); err == nil || err.Error() != want {
						t.Errorf("%s, %s: error %v, want %q", tc.reason, protocol, err, want)
					}
				}
			}
			for _, name := range []string{name, "www.example.com."} {
				if got := txt(t, address, name); got != nil {
					t.Errorf("values of %s: %q", name, got)
				}
			}
		})
	}
}
