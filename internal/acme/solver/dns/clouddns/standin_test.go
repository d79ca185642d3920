package clouddns

import (
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/google/go-cmp/cmp"

	"github.com/certplane/certplane/internal/acme/solver/dns/providertest"
)

// standIn is Cloud DNS with a public and a private zone for example.com, the
// token endpoint of Google, and the metadata server.
type standIn struct {
	providertest.Records
	t     *testing.T
	valid *providertest.Secrets
	zones []string // that were changed
}

const (
	tokenPrefix   = "ya29.token-of-"
	metadataToken = "ya29.metadata"
	userToken     = "ya29.user"
	ownToken      = "ya29.federated" // for DNS
	iamToken      = "ya29.iam"       // for tokens of service accounts
)

func refuse(w http.ResponseWriter, status int, reason, message string) {
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{
		"code": status, "message": message, "errors": []any{map[string]string{"reason": reason, "message": message, "domain": "global"}},
	}})
}

func (s *standIn) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	rest, found := strings.CutPrefix(r.URL.Path, "/dns/v1/projects/my-project/managedZones")
	switch {
	case r.Host == "oauth2.googleapis.com":
		s.token(w, r)
	case r.Host == "metadata.google.internal" && r.Header.Get("Metadata-Flavor") == "Google" && r.URL.Path == "/computeMetadata/v1/instance/service-accounts/default/token":
		fmt.Fprintf(w, `{"access_token":%q,"expires_in":3599,"token_type":"Bearer"}`, metadataToken)
	case r.Host == "sts.googleapis.com":
		s.federate(w, r)
	case r.Host == "iamcredentials.googleapis.com":
		s.impersonate(w, r)
	case r.Host != "dns.googleapis.com" || !found:
		refuse(w, http.StatusNotFound, "notFound", "no such project")
	case !s.authorized(r):
		refuse(w, http.StatusUnauthorized, "authError", "Invalid Credentials")
	case rest == "":
		s.listZones(w, r.URL.Query().Get("dnsName"))
	default:
		s.zone(w, r, rest)
	}
}

func (s *standIn) zone(w http.ResponseWriter, r *http.Request, rest string) {
	switch zone, what, _ := strings.Cut(strings.TrimPrefix(rest, "/"), "/"); {
	case zone != "public-zone" && zone != "fixed-zone":
		refuse(w, http.StatusNotFound, "notFound", "The 'parameters.managedZone' resource named '"+zone+"' does not exist.")
	case r.Method == http.MethodGet && what == "rrsets":
		s.list(w, r.URL.Query().Get("name"))
	case r.Method == http.MethodPost && what == "changes":
		s.zones = append(s.zones, zone)
		s.change(w, r)
	}
}

// authorized reports whether a token was given to the account that is valid now.
func (s *standIn) authorized(r *http.Request) bool {
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	return token == metadataToken || token == userToken || token == ownToken || token == tokenPrefix+s.account().PrivateKeyID
}

func (s *standIn) account() keyFile {
	var file keyFile
	json.Unmarshal([]byte(s.valid.Value("gcp/key.json")), &file)
	return file
}

// token gives tokens for assertions that are signed with the valid key.
func (s *standIn) token(w http.ResponseWriter, r *http.Request) {
	r.ParseForm()
	if r.Form.Get("grant_type") == "refresh_token" && r.Form.Get("refresh_token") == "refresh" && r.Form.Get("client_secret") == "user-secret" {
		fmt.Fprintf(w, `{"access_token":%q,"expires_in":3599}`, userToken)
		return
	}
	if err := s.checkAssertion(r); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		io.WriteString(w, `{"error":"invalid_grant","error_description":"Invalid JWT Signature."}`)
		return
	}
	fmt.Fprintf(w, `{"access_token":%q,"expires_in":3599,"token_type":"Bearer"}`, tokenPrefix+s.account().PrivateKeyID)
}

// federate gives tokens for the token of another provider.
func (s *standIn) federate(w http.ResponseWriter, r *http.Request) {
	r.ParseForm()
	tokens := map[string]string{dnsScope: ownToken, "https://www.googleapis.com/auth/cloud-platform": iamToken}
	if r.URL.Path != "/v1/token" || r.Form.Get("grant_type") != "urn:ietf:params:oauth:grant-type:token-exchange" ||
		r.Form.Get("requested_token_type") != "urn:ietf:params:oauth:token-type:access_token" || r.Form.Get("audience") != "//iam/pool" ||
		r.Form.Get("subject_token_type") != "urn:ietf:params:oauth:token-type:jwt" || r.Form.Get("subject_token") != "foreign-token" {
		w.WriteHeader(http.StatusBadRequest)
		io.WriteString(w, `{"error":"invalid_grant","error_description":"The subject token is invalid."}`)
		return
	}
	fmt.Fprintf(w, `{"access_token":%q,"expires_in":3599,"token_type":"Bearer"}`, tokens[r.Form.Get("scope")])
}

func (s *standIn) impersonate(w http.ResponseWriter, r *http.Request) {
	var wanted struct {
		Scope    []string
		Lifetime string
	}
	json.NewDecoder(r.Body).Decode(&wanted)
	if r.Header.Get("Authorization") != "Bearer "+iamToken || !slices.Equal(wanted.Scope, []string{dnsScope}) || wanted.Lifetime != "3600s" {
		refuse(w, http.StatusForbidden, "forbidden", "may not impersonate")
		return
	}
	fmt.Fprintf(w, `{"accessToken":%q,"expireTime":%q}`, userToken, providertest.Now.Add(time.Hour).Format(time.RFC3339))
}

func (s *standIn) checkAssertion(r *http.Request) error {
	file := s.account()
	block, _ := pem.Decode([]byte(file.PrivateKey))
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return err
	}
	token, err := jwt.ParseSigned(r.Form.Get("assertion"), []jose.SignatureAlgorithm{jose.RS256})
	if err != nil || r.URL.Path != "/token" || r.Form.Get("grant_type") != "urn:ietf:params:oauth:grant-type:jwt-bearer" {
		return fmt.Errorf("wrong call: %w", err)
	}
	var claims map[string]any
	if err := token.Claims(&key.(*rsa.PrivateKey).PublicKey, &claims); err != nil {
		return err
	}
	want := map[string]any{
		"iss": "dns@my-project.iam.gserviceaccount.com", "scope": "https://www.googleapis.com/auth/ndev.clouddns.readwrite",
		"aud": "https://oauth2.googleapis.com/token", "iat": float64(providertest.Now.Unix()), "exp": float64(providertest.Now.Add(time.Hour).Unix()),
	}
	if diff := cmp.Diff(want, claims); diff != "" || token.Headers[0].KeyID != file.PrivateKeyID {
		s.t.Errorf("key %q, claims (-want +got):\n%s", token.Headers[0].KeyID, diff)
	}
	return nil
}

func (s *standIn) listZones(w http.ResponseWriter, domain string) {
	zones := []any{}
	if domain == "example.com." {
		zones = []any{
			map[string]string{"name": "private-zone", "dnsName": domain, "visibility": "private"},
			map[string]string{"name": "public-zone", "dnsName": domain, "visibility": "public"},
		}
	}
	json.NewEncoder(w).Encode(map[string]any{"kind": "dns#managedZonesListResponse", "managedZones": zones})
}

// set returns a record set as the API shows it: with a field that the provider
// does not know, but has to repeat.
func (s *standIn) set(name string) map[string]any {
	var quoted []any
	for _, value := range s.Values(name) {
		quoted = append(quoted, `"`+value+`"`)
	}
	return map[string]any{"kind": "dns#resourceRecordSet", "name": name, "type": "TXT", "ttl": 60.0, "rrdatas": quoted, "signatureRrdatas": []any{}}
}

func (s *standIn) list(w http.ResponseWriter, name string) {
	sets := []any{}
	if len(s.Values(name)) > 0 {
		sets = append(sets, s.set(name))
	}
	json.NewEncoder(w).Encode(map[string]any{"rrsets": sets})
}

// change is all or nothing: deletions must be exactly what is there.
func (s *standIn) change(w http.ResponseWriter, r *http.Request) {
	var change struct {
		Additions []recordSet
		Deletions []map[string]any
	}
	if json.NewDecoder(r.Body).Decode(&change) != nil || len(change.Additions)+len(change.Deletions) == 0 {
		refuse(w, http.StatusBadRequest, "invalid", "wrong change")
		return
	}
	name := ""
	for _, deleted := range change.Deletions {
		name = deleted["name"].(string)
		switch {
		case len(s.Values(name)) == 0:
			refuse(w, http.StatusNotFound, "notFound", "The 'entity.change.deletions[0]' resource does not exist.")
			return
		case !cmp.Equal(deleted, s.set(name)):
			refuse(w, http.StatusPreconditionFailed, "conditionNotMet", "Precondition not met for 'entity.change.deletions[0]'")
			return
		}
	}
	for _, added := range change.Additions {
		if len(change.Deletions) == 0 && len(s.Values(added.Name)) > 0 {
			refuse(w, http.StatusConflict, "alreadyExists", "The resource 'entity.change.additions[0]' already exists")
			return
		}
		if added.Type != "TXT" || added.TTL != 60 {
			s.t.Errorf("added: %+v", added)
		}
	}
	var values []string
	for _, added := range change.Additions {
		name = added.Name
		for _, value := range added.Values {
			values = append(values, strings.Trim(value, `"`))
		}
	}
	s.Set(name, slices.Clone(values)...)
	json.NewEncoder(w).Encode(map[string]string{"id": "1", "status": "pending"})
}
