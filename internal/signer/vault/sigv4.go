package vault

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// awsKeys are temporary credentials of AWS.
type awsKeys struct {
	id              string
	secret, session credential
}

// awsRequest is a POST without a query, to be signed.
type awsRequest struct {
	host, path, body string
	// header is what is sent besides Host, by names in lower case.
	header map[string]string
}

// The formats of times in Signature Version 4.
const (
	awsTime = "20060102T150405Z"
	awsDate = "20060102"
)

// sign returns the headers Authorization, X-Amz-Date and X-Amz-Security-Token
// for a request (AWS Signature Version 4). All its headers are signed.
func (r awsRequest) sign(keys awsKeys, region, service string, now time.Time) map[string]string {
	now = now.UTC()
	added := map[string]string{"x-amz-date": now.Format(awsTime)}
	if keys.session != "" {
		added["x-amz-security-token"] = string(keys.session)
	}
	canonical, names := r.canonical(added)
	scope := strings.Join([]string{now.Format(awsDate), region, service, "aws4_request"}, "/")
	key := []byte("AWS4" + string(keys.secret))
	for part := range strings.SplitSeq(scope, "/") {
		key = mac(key, part)
	}
	signature := hex.EncodeToString(mac(key, strings.Join([]string{"AWS4-HMAC-SHA256", now.Format(awsTime), scope, digest(canonical)}, "\n")))
	added["authorization"] = fmt.Sprintf("AWS4-HMAC-SHA256 Credential=%s/%s, SignedHeaders=%s, Signature=%s", keys.id, scope, names, signature)
	return added
}

// canonical returns the canonical form of a request, and the names of its
// headers.
func (r awsRequest) canonical(added map[string]string) (text, names string) {
	header := map[string]string{"host": r.host}
	maps.Copy(header, r.header)
	maps.Copy(header, added)
	sorted := slices.Sorted(maps.Keys(header))
	names = strings.Join(sorted, ";")
	lines := []string{"POST", r.path, ""}
	for _, name := range sorted {
		lines = append(lines, name+":"+strings.Join(strings.Fields(header[name]), " "))
	}
	return strings.Join(append(lines, "", names, digest(r.body)), "\n"), names
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
