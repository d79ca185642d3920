package azuredns

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/certplane/certplane/internal/acme/solver/dns/providertest"
)

// standIn is Azure DNS with the zone example.com, Entra ID, and the metadata
// service.
type standIn struct {
	providertest.Records
	t     *testing.T
	kind  kind
	valid func(client, secret string) bool
	// metadata are labels of record sets, which must not get lost.
	metadata map[string]any
	queries  []string // to the metadata service
}

const (
	base        = "/subscriptions/my-subscription/resourceGroups/my-group/providers/Microsoft.Network/"
	tokenPrefix = "eyJ.access-token-for-"
	federated   = "federated-token-of-the-pod"
)

func refuse(w http.ResponseWriter, status int, code, message string) {
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(map[string]any{"error": map[string]string{"code": code, "message": message}})
}

func (s *standIn) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	rest, found := strings.CutPrefix(r.URL.EscapedPath(), base+s.kind.zones+"/")
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "+tokenPrefix)
	zone, set, isSet := strings.Cut(rest, "/TXT/")
	switch {
	case r.Host == "login.microsoftonline.com" || r.Host == "login.example.net":
		s.token(w, r)
	case r.Host == "169.254.169.254":
		s.instance(w, r)
	case r.Host != "management.azure.com" || !found || r.URL.Query().Get("api-version") != s.kind.version:
		refuse(w, http.StatusNotFound, "ResourceGroupNotFound", "no such API")
	case token != "instance" && !s.valid(strings.Split(token+"/", "/")[0], strings.Split(token+"/", "/")[1]):
		refuse(w, http.StatusUnauthorized, "InvalidAuthenticationToken", "The access token is invalid.")
	case zone != "example.com":
		refuse(w, http.StatusNotFound, "ParentResourceNotFound", "The zone '"+zone+"' was not found.")
	case !isSet:
		fmt.Fprint(w, `{"id":"x","name":"example.com"}`)
	default:
		s.recordSet(w, r, set+".example.com.")
	}
}

func (s *standIn) token(w http.ResponseWriter, r *http.Request) {
	r.ParseForm()
	client, secret := r.Form.Get("client_id"), r.Form.Get("client_secret")
	if r.Form.Get("client_assertion") == federated && r.Form.Get("client_assertion_type") == "urn:ietf:params:oauth:client-assertion-type:jwt-bearer" {
		secret = federated
	}
	if r.Method != http.MethodPost || r.URL.Path != "/my-tenant/oauth2/v2.0/token" || r.Form.Get("grant_type") != "client_credentials" ||
		r.Form.Get("scope") != "https://management.core.windows.net//.default" || !s.valid(client, secret) {
		w.WriteHeader(http.StatusUnauthorized)
		io.WriteString(w, `{"error":"invalid_client","error_description":"AADSTS7000215: Invalid client secret provided. Trace ID: 0a1b-2c Correlation ID: 3d4e-5f Timestamp: 2026-11-23 12:00:00Z"}`)
		return
	}
	fmt.Fprintf(w, `{"token_type":"Bearer","expires_in":3599,"access_token":%q}`, tokenPrefix+client+"/"+secret)
}

func (s *standIn) instance(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Metadata") != "true" || r.URL.Path != "/metadata/identity/oauth2/token" {
		http.Error(w, "no", http.StatusBadRequest)
		return
	}
	s.queries = append(s.queries, r.URL.RawQuery)
	fmt.Fprintf(w, `{"access_token":%q,"expires_in":"3599","token_type":"Bearer"}`, tokenPrefix+"instance")
}

// recordSet changes sets under the conditions of headers only.
func (s *standIn) recordSet(w http.ResponseWriter, r *http.Request, name string) {
	values := s.Values(name)
	etag := fmt.Sprintf("etag-%d", s.Version(name))
	match, isNew := r.Header.Get("If-Match"), r.Header.Get("If-None-Match") == "*"
	switch {
	case r.Method != http.MethodGet && (match == "") != isNew:
		s.t.Errorf("%s without a condition", r.Method)
	case r.Method == http.MethodGet && len(values) == 0:
		refuse(w, http.StatusNotFound, "NotFound", "The resource record was not found.")
	case r.Method == http.MethodGet:
		s.show(w, etag, values)
	case r.Method == http.MethodDelete && len(values) == 0:
		w.WriteHeader(http.StatusNoContent)
	case isNew && len(values) > 0 || !isNew && (match != etag || len(values) == 0):
		refuse(w, http.StatusPreconditionFailed, "PreconditionFailed", "The condition was not met.")
	case r.Method == http.MethodDelete:
		s.Set(name)
	case r.Method == http.MethodPut:
		s.put(w, r, name)
	}
}

func (s *standIn) put(w http.ResponseWriter, r *http.Request, name string) {
	var set struct{ Properties map[string]any }
	if err := json.NewDecoder(r.Body).Decode(&set); err != nil {
		refuse(w, http.StatusBadRequest, "BadRequest", "wrong JSON")
		return
	}
	records, _ := set.Properties[s.kind.records].([]any)
	labels, _ := set.Properties["metadata"].(map[string]any)
	if set.Properties[s.kind.ttl] != 60.0 || len(records) == 0 || len(labels) != len(s.metadata) && len(s.Values(name)) > 0 {
		s.t.Errorf("properties are %v", set.Properties)
	}
	var values []string
	for _, record := range records {
		values = append(values, record.(map[string]any)["value"].([]any)[0].(string))
	}
	s.Set(name, values...)
	s.show(w, "etag", values)
}

func (s *standIn) show(w http.ResponseWriter, etag string, values []string) {
	var records []any
	for _, value := range values {
		records = append(records, map[string]any{"value": []string{value}})
	}
	json.NewEncoder(w).Encode(map[string]any{"etag": etag, "name": "x", "properties": map[string]any{
		s.kind.ttl: 60, s.kind.records: records, "metadata": s.metadata, "fqdn": "x", "provisioningState": "Succeeded",
	}})
}
