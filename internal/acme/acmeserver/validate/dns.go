package validate

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/miekg/dns"

	"github.com/certplane/certplane/internal/acme/dnsquery"
	"github.com/certplane/certplane/internal/api/rfc8555"
)

// maxShown is how much of a TXT record the client is shown, in bytes.
const maxShown = 60

// dns01 looks for the TXT record of a dns-01 challenge (RFC 8555 section 8.4).
func (a *attempt) dns01(ctx context.Context) *failure {
	name := strings.TrimSuffix(rfc8555.RecordName(rfc8555.ChallengeDNS01, a.Identifier.Value, ""), ".")
	found := a.lookup(ctx, name, dns.TypeTXT)
	a.record.Resolver = found.server
	if found.err != nil {
		return lookupFailure(found.err, name)
	}
	values := dnsquery.TXT(found.reply, found.name)
	if len(values) == 0 {
		return &failure{kind: rfc8555.ProblemUnauthorized, detail: "no TXT record at " + name}
	}
	value, ok := matchTXT(values, a.KeyAuthorization)
	if !ok {
		return &failure{
			kind:   rfc8555.ProblemUnauthorized,
			detail: fmt.Sprintf("none of the %d TXT records at %s has the expected value; the first is %s", len(values), name, shown(values[0])),
		}
	}
	a.record.SHA256 = hash([]byte(value))
	return nil
}

// matchTXT returns the value that answers a dns-01 challenge.
func matchTXT(values []string, keyAuthorization string) (string, bool) {
	sum := sha256.Sum256([]byte(keyAuthorization))
	want := base64.RawURLEncoding.EncodeToString(sum[:])
	for _, value := range values {
		if subtle.ConstantTimeCompare([]byte(value), []byte(want)) == 1 {
			return value, true
		}
	}
	return "", false
}

func hash(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// shown returns a text from outside for display: printable, and at most maxShown bytes.
func shown(text string) string {
	if len(text) > maxShown {
		text = text[:maxShown]
	}
	return strconv.QuoteToASCII(text)
}
