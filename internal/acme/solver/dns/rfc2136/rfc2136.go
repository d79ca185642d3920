// Package rfc2136 writes TXT records by dynamic updates (RFC 2136).
package rfc2136

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	"github.com/miekg/dns"

	"github.com/certplane/certplane/internal/acme/solver/dns/provider"
	"github.com/certplane/certplane/internal/process/linklocal"
)

const (
	// ttl is the TTL of the records, in seconds.
	ttl = 60
	// fudge is how much the clocks of both sides may differ, in seconds.
	fudge = 300
	// timeout is that of one update.
	timeout = 10 * time.Second
)

// algorithms maps the algorithms of the API to their names on the wire.
var algorithms = map[string]string{
	"":           dns.HmacMD5,
	"HMACMD5":    dns.HmacMD5,
	"HMACSHA1":   dns.HmacSHA1,
	"HMACSHA256": dns.HmacSHA256,
	"HMACSHA512": dns.HmacSHA512,
}

// updater is a provider.Provider.
type updater struct {
	nameserver string // host:port
	network    string // udp or tcp
	key        *key   // nil: updates are not signed
	now        func() time.Time
	// refuse, if not nil, refuses addresses of the name server.
	refuse func(netip.Addr) error
}

// New returns a provider for one name server. Its errors have cert-manager's texts, which
// users search for.
func New(ctx context.Context, env provider.Env, spec *acmev1.ACMEIssuerDNS01ProviderRFC2136) (provider.Provider, error) {
	algorithm, ok := algorithms[strings.ToUpper(spec.TSIGAlgorithm)]
	if !ok {
		return nil, fmt.Errorf("algorithm '%s' is not supported", spec.TSIGAlgorithm)
	}
	secret, err := readSecret(ctx, env, spec)
	if err != nil {
		return nil, err
	}
	u := &updater{nameserver: withPort(spec.Nameserver), network: "udp", now: env.Now, refuse: env.RefuseAddress}
	if spec.Protocol == acmev1.RFC2136UpdateProtocolTCP {
		u.network = "tcp"
	}
	// As cert-manager does: with only one of them, updates are not signed.
	if len(secret) > 0 && spec.TSIGKeyName != "" {
		u.key = &key{name: dns.CanonicalName(spec.TSIGKeyName), algorithm: algorithm, secret: secret}
	}
	return u, nil
}

// readSecret returns the key, or nil if the spec names none.
func readSecret(ctx context.Context, env provider.Env, spec *acmev1.ACMEIssuerDNS01ProviderRFC2136) ([]byte, error) {
	from := spec.TSIGSecret
	switch {
	case from.Name == "":
		return nil, nil
	case from.Key == "":
		return nil, errors.New("key of data in Secret resource must be specified")
	}
	text, err := env.Secret(ctx, from.Name, from.Key)
	if missing := (*provider.KeyError)(nil); errors.As(err, &missing) {
		return nil, fmt.Errorf("data entry with key %q not found in secret", from.Key)
	}
	if err != nil {
		return nil, err
	}
	secret, err := base64.StdEncoding.DecodeString(string(bytes.TrimSpace(text)))
	if err != nil { // which must not be shown: it quotes the secret
		return nil, fmt.Errorf("the TSIG key in secret %s is not base64", from.Name)
	}
	return secret, nil
}

// withPort adds the port 53 to a host without a port.
func withPort(nameserver string) string {
	if _, _, err := net.SplitHostPort(nameserver); err == nil {
		return nameserver
	}
	return net.JoinHostPort(strings.Trim(nameserver, "[]"), "53")
}

// Present implements provider.Provider.
func (u *updater) Present(ctx context.Context, record provider.Record) error {
	return u.update(ctx, record, (*dns.Msg).Insert)
}

// CleanUp implements provider.Provider.
func (u *updater) CleanUp(ctx context.Context, record provider.Record) error {
	return u.update(ctx, record, (*dns.Msg).Remove)
}

func (u *updater) update(ctx context.Context, record provider.Record, change func(*dns.Msg, []dns.RR)) error {
	message := new(dns.Msg).SetUpdate(dns.Fqdn(record.Zone))
	change(message, []dns.RR{&dns.TXT{
		Hdr: dns.RR_Header{Name: dns.Fqdn(record.FQDN), Rrtype: dns.TypeTXT, Class: dns.ClassINET, Ttl: ttl},
		Txt: []string{record.Value},
	}})
	var more []func(netip.Addr) error
	if u.refuse != nil {
		more = append(more, u.refuse)
	}
	client := &dns.Client{Net: u.network, Timeout: timeout, Dialer: &net.Dialer{Timeout: timeout, Control: linklocal.Control(more...)}}
	if u.key != nil {
		client.TsigProvider = u.key
		message.SetTsig(u.key.name, u.key.algorithm, fudge, u.now().Unix())
	}
	reply, _, err := client.ExchangeContext(ctx, message, u.nameserver)
	return u.judge(reply, err)
}

// judge returns what is wrong with a reply.
func (u *updater) judge(reply *dns.Msg, err error) error {
	switch {
	case err != nil:
		if errors.Is(err, dns.ErrAuth) { // the library's word for NOTAUTH, which is also that of a server without the zone
			return fmt.Errorf("DNS update failed: %w (the server replied NOTAUTH)%s", err, whySignature(reply))
		}
		return fmt.Errorf("DNS update failed: %w%s", withoutPorts(err), whySignature(reply))
	case reply.Rcode != dns.RcodeSuccess:
		name := cmp.Or(dns.RcodeToString[reply.Rcode], fmt.Sprintf("RCODE%d", reply.Rcode))
		return fmt.Errorf("DNS update failed. Server replied: %s%s", name, whySignature(reply))
	case u.key != nil && reply.IsTsig() == nil: // anybody could have sent it
		return errors.New("DNS update failed: the server's reply is not signed")
	}
	return nil
}

// whySignature returns the server's error about the signature, in parentheses; empty if it
// sends none.
func whySignature(reply *dns.Msg) string {
	if reply == nil {
		return ""
	}
	if tsig := reply.IsTsig(); tsig != nil && tsig.Error != dns.RcodeSuccess {
		return fmt.Sprintf(" (the server reports the TSIG error %s)", cmp.Or(dns.RcodeToString[int(tsig.Error)], fmt.Sprint(tsig.Error)))
	}
	return ""
}

// withoutPorts returns an error without our own address, which is different
// each time: these texts are stored.
func withoutPorts(err error) error {
	var network *net.OpError
	if !errors.As(err, &network) {
		return err
	}
	if network.Timeout() {
		return fmt.Errorf("no reply from %s over %s in time", network.Addr, network.Net)
	}
	return fmt.Errorf("%s %s over %s: %w", network.Op, network.Addr, network.Net, network.Err)
}
