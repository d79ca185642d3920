package route53

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/certplane/certplane/internal/acme/solver/dns/providertest"
)

// standIn is Route 53 with the public zone example.com and others, and STS.
type standIn struct {
	providertest.Records
	t *testing.T
	// secret returns the secret of a key; empty for keys that are not valid.
	secret func(keyID string) string
	// token returns the only token that STS accepts.
	token func() string
	roles []string // that were assumed
}

const (
	assumedKey     = "ASIA-assumed"
	assumedSecret  = "assumed-secret"
	assumedSession = "assumed-session"
)

const refusalXML = `<?xml version="1.0"?>
<ErrorResponse xmlns="https://route53.amazonaws.com/doc/2013-04-01/"><Error><Type>Sender</Type><Code>%s</Code><Message>%s</Message></Error><RequestId>0a1b-2c3d</RequestId></ErrorResponse>`

func refuse(w http.ResponseWriter, status int, code, message string) {
	w.WriteHeader(status)
	fmt.Fprintf(w, refusalXML, code, message)
}

func (s *standIn) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body := providertest.ReadBody(r)
	switch {
	case strings.HasPrefix(r.Host, "sts."):
		s.sts(w, r, body)
	case r.Host != "route53.amazonaws.com" || !s.signed(r, body):
		refuse(w, http.StatusForbidden, "SignatureDoesNotMatch", "The request signature we calculated does not match the signature you provided.")
	case r.Method == http.MethodGet && r.URL.Path == "/2013-04-01/hostedzonesbyname":
		s.zones(w, r.URL.Query().Get("dnsname"))
	case r.Method == http.MethodPost && r.URL.Path == "/2013-04-01/hostedzone/Z-PUBLIC/rrset":
		s.change(w, body)
	default:
		refuse(w, http.StatusNotFound, "NoSuchHostedZone", "No hosted zone found with ID: X")
	}
}

// signed reports whether a request has the signature that AWS's library makes.
func (s *standIn) signed(r *http.Request, body []byte) bool {
	authorization := r.Header.Get("Authorization")
	_, credential, _ := strings.Cut(authorization, "Credential=")
	where := strings.Split(credential, "/")
	if len(where) < 4 {
		return false
	}
	wantWhere := "us-east-1 route53"
	if region, isSTS := strings.CutPrefix(r.Host, "sts."); isSTS {
		wantWhere = strings.TrimSuffix(region, ".amazonaws.com") + " sts"
	}
	if where[2]+" "+where[3] != wantWhere {
		return false
	}
	c := aws.Credentials{AccessKeyID: where[0], SecretAccessKey: s.secret(where[0])}
	if where[0] == assumedKey {
		c.SecretAccessKey, c.SessionToken = assumedSecret, assumedSession
	}
	r.URL.Scheme, r.URL.Host = "https", r.Host
	return c.SecretAccessKey != "" && r.Header.Get("X-Amz-Security-Token") == c.SessionToken && sdkSignature(s.t, r, body, c) == authorization
}

// sdkSignature returns what AWS's library puts in the header Authorization of a
// signed request: same headers, time, region and service.
func sdkSignature(t testing.TB, request *http.Request, body []byte, c aws.Credentials) string {
	t.Helper()
	authorization := request.Header.Get("Authorization")
	at, err := time.Parse("20060102T150405Z", request.Header.Get("X-Amz-Date"))
	_, credential, found := strings.Cut(authorization, "/")
	where := strings.Split(credential, "/")
	if err != nil || !found || len(where) < 4 {
		return "malformed: " + authorization
	}
	other, err := http.NewRequest(request.Method, request.URL.String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	other.Host = request.Host
	other.Header.Set("Content-Type", request.Header.Get("Content-Type"))
	if request.Header.Get("Content-Type") == "" {
		other.Header.Del("Content-Type")
	}
	digest := sha256.Sum256(body)
	if err := v4.NewSigner().SignHTTP(t.Context(), c, other, hex.EncodeToString(digest[:]), where[2], where[1], at); err != nil {
		t.Fatal(err)
	}
	return other.Header.Get("Authorization")
}

func (s *standIn) sts(w http.ResponseWriter, r *http.Request, body []byte) {
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	r.ParseForm()
	action := r.Form.Get("Action")
	switch {
	case r.Method != http.MethodPost || r.Form.Get("Version") != "2011-06-15" || r.Form.Get("RoleSessionName") != "cert-manager":
		refuse(w, http.StatusBadRequest, "ValidationError", "wrong call")
	case action == "AssumeRole" && !s.signed(r, body):
		refuse(w, http.StatusForbidden, "InvalidClientTokenId", "The security token included in the request is invalid.")
	case action == "AssumeRoleWithWebIdentity" && (r.Header.Get("Authorization") != "" || r.Form.Get("WebIdentityToken") != s.token()):
		refuse(w, http.StatusBadRequest, "InvalidIdentityToken", "Couldn't retrieve verification key from your identity provider")
	default:
		s.roles = append(s.roles, r.Form.Get("RoleArn"))
		fmt.Fprintf(w, `<%[1]sResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><%[1]sResult><Credentials>
			<AccessKeyId>%[2]s</AccessKeyId><SecretAccessKey>%[3]s</SecretAccessKey><SessionToken>%[4]s</SessionToken><Expiration>2026-11-23T13:00:00Z</Expiration>
			</Credentials></%[1]sResult></%[1]sResponse>`, action, assumedKey, assumedSecret, assumedSession)
	}
}

// zones lists zones from a name on, in the order of their reversed labels.
func (s *standIn) zones(w http.ResponseWriter, from string) {
	io.WriteString(w, `<?xml version="1.0"?><ListHostedZonesByNameResponse xmlns="https://route53.amazonaws.com/doc/2013-04-01/"><HostedZones>`)
	for _, zone := range []struct {
		id, name string
		private  bool
	}{{"Z-PRIVATE", "www.example.com.", true}, {"Z-PUBLIC", "example.com.", false}, {"Z-OTHER", "example.net.", false}} {
		if from == "example.com" || zone.name != "example.com." && zone.name != "www.example.com." {
			fmt.Fprintf(w, `<HostedZone><Id>/hostedzone/%s</Id><Name>%s</Name><CallerReference>x</CallerReference><Config><PrivateZone>%v</PrivateZone></Config></HostedZone>`, zone.id, zone.name, zone.private)
		}
	}
	io.WriteString(w, `</HostedZones><IsTruncated>false</IsTruncated><MaxItems>100</MaxItems></ListHostedZonesByNameResponse>`)
}

func (s *standIn) change(w http.ResponseWriter, body []byte) {
	var request struct {
		XMLName xml.Name `xml:"https://route53.amazonaws.com/doc/2013-04-01/ ChangeResourceRecordSetsRequest"`
		Comment string   `xml:"ChangeBatch>Comment"`
		Change  struct {
			Action string
			Set    struct {
				Name, Type, SetIdentifier string
				MultiValueAnswer          bool
				TTL                       int
				Value                     string `xml:"ResourceRecords>ResourceRecord>Value"`
			} `xml:"ResourceRecordSet"`
		} `xml:"ChangeBatch>Changes>Change"`
	}
	err := xml.Unmarshal(body, &request)
	set := request.Change.Set
	if err != nil || request.Comment != "Managed by cert-manager" || set.Type != "TXT" || set.TTL != 10 || !set.MultiValueAnswer || set.SetIdentifier != set.Value || !strings.HasPrefix(set.Value, `"`) {
		refuse(w, http.StatusBadRequest, "InvalidInput", "wrong change")
		return
	}
	values, value := s.Values(set.Name), strings.Trim(set.Value, `"`)
	exists := slices.Contains(values, value)
	switch {
	case !strings.HasSuffix(set.Name, ".example.com."):
		refuse(w, http.StatusBadRequest, "InvalidChangeBatch", "[RRSet with DNS name X is not permitted in zone example.com.]")
		return
	case request.Change.Action == "DELETE" && !exists:
		w.WriteHeader(http.StatusBadRequest)
		io.WriteString(w, `<?xml version="1.0"?><InvalidChangeBatch xmlns="https://route53.amazonaws.com/doc/2013-04-01/"><Messages><Message>Tried to delete resource record set but it was not found</Message></Messages><RequestId>1</RequestId></InvalidChangeBatch>`)
		return
	case request.Change.Action == "DELETE":
		s.Set(set.Name, slices.DeleteFunc(values, func(v string) bool { return v == value })...)
	case request.Change.Action == "UPSERT" && !exists:
		s.Add(set.Name, value)
	}
	io.WriteString(w, `<?xml version="1.0"?><ChangeResourceRecordSetsResponse xmlns="https://route53.amazonaws.com/doc/2013-04-01/"><ChangeInfo><Id>/change/C1</Id><Status>PENDING</Status><SubmittedAt>2026-11-23T12:00:00Z</SubmittedAt></ChangeInfo></ChangeResourceRecordSetsResponse>`)
}
