package interop

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path/filepath"
	"testing"
)

// apiServer is an API server, with a client that acts as its administrator.
type apiServer struct {
	url    string
	client *http.Client
}

// newAPIServer uses the administrator's certificate in certplane's data
// directory: the peer trusts the same client CA.
func newAPIServer(t *testing.T, url, dataDir string) *apiServer {
	t.Helper()
	pki := filepath.Join(dataDir, "pki")
	certificate, err := tls.LoadX509KeyPair(filepath.Join(pki, "admin.crt"), filepath.Join(pki, "admin.key"))
	if err != nil {
		t.Fatalf("reading the administrator's certificate: %v", err)
	}
	return &apiServer{url: url, client: &http.Client{
		Timeout: timeout,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{
			Certificates: []tls.Certificate{certificate},
			// The peer uses a self-signed certificate, on loopback.
			InsecureSkipVerify: true,
		}},
	}}
}

// call is one request of a test.
type call struct {
	method, path string
	body         any // an object, or a string that is sent as it is
	contentType  string
	accept       string
	user         string // impersonated
	group        string // impersonated with user
	header       http.Header
	until        string // what the answer has once the server knows enough
}

// answer is what a client sees.
type answer struct {
	Code     int
	Type     string
	Warnings []string
	Body     any
}

func (s *apiServer) do(t *testing.T, c call) answer {
	t.Helper()
	response, err := s.client.Do(s.request(t, c))
	if err != nil {
		t.Fatalf("%s %s: %v", c.method, c.path, err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", c.method, c.path, err)
	}
	a := answer{Code: response.StatusCode, Type: response.Header.Get("Content-Type"), Warnings: response.Header.Values("Warning")}
	a.Body = parse(data)
	return a
}

// parse reads JSON. For a watch, it returns a list of its events.
func parse(data []byte) any {
	var values []any
	for decoder := json.NewDecoder(bytes.NewReader(data)); ; {
		var value any
		err := decoder.Decode(&value)
		switch {
		case errors.Is(err, io.EOF) && len(values) == 1:
			return values[0]
		case errors.Is(err, io.EOF):
			return values
		case err != nil:
			return string(data)
		}
		values = append(values, value)
	}
}

func (s *apiServer) request(t *testing.T, c call) *http.Request {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), c.method, s.url+c.path, body(t, c.body))
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(request.Header, c.header)
	for name, value := range map[string]string{
		"Content-Type": c.contentType, "Accept": c.accept, "Impersonate-User": c.user, "Impersonate-Group": c.group,
	} {
		if value != "" {
			request.Header.Set(name, value)
		}
	}
	if c.body != nil && request.Header.Get("Content-Type") == "" {
		request.Header.Set("Content-Type", "application/json")
	}
	return request
}

func body(t *testing.T, content any) io.Reader {
	t.Helper()
	switch content := content.(type) {
	case nil:
		return http.NoBody
	case string:
		return bytes.NewReader([]byte(content))
	}
	data, err := json.Marshal(content)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.NewReader(data)
}

func (s *apiServer) ready() bool {
	response, err := s.client.Get(s.url + "/readyz")
	if err != nil {
		return false
	}
	defer response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// object returns the body of an answer, which must be an object.
func (a answer) object(t *testing.T) map[string]any {
	t.Helper()
	object, ok := a.Body.(map[string]any)
	if !ok {
		t.Fatalf("the answer is no object: %s", fmt.Sprint(a))
	}
	return object
}
