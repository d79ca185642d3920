package interop

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// servers are certplane and the kube-apiserver it is compared with.
type servers struct {
	ours, peer *apiServer
	dir        string // has "data", which is certplane's, and "peer"
}

// startServers runs both on one etcd, under different prefixes, with one
// client CA. args are more of kube-apiserver's.
func startServers(t *testing.T, args ...string) servers {
	t.Helper()
	program, kubeAPIServer := certplane(t), peer(t, "kube-apiserver")
	ours, dir := startCertplane(t, program)
	data := filepath.Join(dir, "data")
	if !slices.ContainsFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "--authorization-config=") }) {
		args = append(args, "--authorization-mode=Node,RBAC")
	}
	peerAddress := freeAddress(t)
	_, port := splitAddress(t, peerAddress)
	key := serviceAccountKey(t, dir)
	run(t, dir, kubeAPIServer, append([]string{
		"--etcd-servers=unix://" + filepath.Join(data, "etcd/client.sock"),
		"--etcd-prefix=/peer",
		"--client-ca-file=" + filepath.Join(data, "pki/client-ca-root.crt"),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + key,
		"--service-account-signing-key-file=" + key,
		"--cert-dir=" + filepath.Join(dir, "peer"),
		"--bind-address=127.0.0.1", "--secure-port=" + port,
		"--service-cluster-ip-range=10.0.0.0/24",
		"--enable-admission-plugins=NodeRestriction",
		// These concern kinds that certplane does not serve, or what runs pods.
		"--disable-admission-plugins=ServiceAccount,Priority,DefaultTolerationSeconds,TaintNodesByCondition,RuntimeClass,LimitRanger,PodSecurity",
	}, args...)...)
	peer := newAPIServer(t, "https://"+peerAddress, data)
	eventually(t, "kube-apiserver is ready", peer.ready)
	return servers{ours: ours, peer: peer, dir: dir}
}

// serviceAccountKey makes a key in the one form that kube-apiserver accepts
// both for signing and for verifying.
func serviceAccountKey(t *testing.T, dir string) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "service-account.key")
	block := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
	if err := os.WriteFile(path, block, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// same sends one call to both and compares what a client sees.
func (s servers) same(t *testing.T, c call) {
	t.Helper()
	compare(t, s.ours.settled(t, c), s.peer.settled(t, c))
}

// settled returns the answer to a call once it has the text that the call waits
// for, if any.
func (s *apiServer) settled(t *testing.T, c call) answer {
	t.Helper()
	var a answer
	eventually(t, "an answer has "+c.until, func() bool {
		a = s.do(t, c)
		text, err := json.Marshal(a.Body)
		return err == nil && strings.Contains(string(text), c.until)
	})
	return a
}

// sameUpdate reads an object from each, edits it, and sends it back.
func (s servers) sameUpdate(t *testing.T, path, subresource string, edit func(object map[string]any), user string) {
	t.Helper()
	update := func(server *apiServer) answer {
		object := server.do(t, call{method: http.MethodGet, path: path}).object(t)
		edit(object)
		return server.do(t, call{method: http.MethodPut, path: path + subresource, body: object, user: user})
	}
	compare(t, update(s.ours), update(s.peer))
}

func compare(t *testing.T, ours, peer answer) {
	t.Helper()
	ours, peer = normalize(t, ours), normalize(t, peer)
	if !reflect.DeepEqual(ours, peer) {
		t.Errorf("certplane and kube-apiserver differ\nours: %+v\npeer: %+v", ours, peer)
	}
}

// changing are fields whose values differ in each answer.
var changing = map[string]bool{
	"uid": true, "resourceVersion": true, "creationTimestamp": true,
	"lastUpdateTime": true, "lastTransitionTime": true, "deletionTimestamp": true, "time": true,
	"token": true, "expirationTimestamp": true, "continue": true,
}

// texts are parts of messages that differ in each answer, or that differ
// between Kubernetes 1.36 and 1.37, with whose libraries certplane is built.
var texts = strings.NewReplacer(
	", application/cbor", "",
	"application/apply-patch+yaml, application/apply-patch+cbor", "application/apply-patch+yaml",
	"/registry/", "/prefix/", "/peer/", "/prefix/",
	// Programs are the managers of the fields that they write themselves.
	`"manager":"certplane"`, `"manager":"kube-apiserver"`,
	// The description of a field in the definition of a column.
	"roleRef can reference", "RoleRef can reference", " This field is immutable.", "",
	// Values that were refused are shown in the types of the code.
	`,\"TimeAdded\":null`, "", "(core.", "(v1.", "(authentication.", "(v1.",
)

// typeKeys are the keys of such values.
var typeKeys = regexp.MustCompile(`\\"[A-Za-z]+\\":`)

// age is how long ago something was made.
var age = regexp.MustCompile(`^[0-9]+s$`)

var uidPattern = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

func normalize(t *testing.T, a answer) answer {
	t.Helper()
	clean(a.Body)
	a.Warnings = slices.DeleteFunc(a.Warnings, func(w string) bool { return strings.Contains(w, "is deprecated in v1.37+") })
	if len(a.Warnings) == 0 {
		a.Warnings = nil
	}
	data, err := json.Marshal(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	text := uidPattern.ReplaceAllString(texts.Replace(string(data)), "UID")
	text = typeKeys.ReplaceAllStringFunc(text, strings.ToLower)
	a.Body = nil
	if err := json.Unmarshal([]byte(text), &a.Body); err != nil {
		t.Fatal(err)
	}
	return a
}

func clean(value any) {
	switch value := value.(type) {
	case map[string]any:
		for name := range value {
			if changing[name] {
				value[name] = "changing"
			} else {
				clean(value[name])
			}
		}
	case []any:
		for i, item := range value {
			if text, ok := item.(string); ok && age.MatchString(text) {
				value[i] = "changing"
			}
			clean(item)
		}
	}
}

// shortTempDir is t.TempDir with a path in which a Unix socket fits.
func shortTempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "interop-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

func splitAddress(t *testing.T, address string) (host, port string) {
	t.Helper()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	return host, port
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// manifest makes a request with the program under test, as a user would.
func manifest(t *testing.T, args ...string) map[string]any {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), certplane(t), append([]string{"request", "--dry-run=client", "-o", "json"}, args...)...).Output()
	if err != nil {
		t.Fatalf("making a request: %v", err)
	}
	var object map[string]any
	if err := json.Unmarshal(out, &object); err != nil {
		t.Fatal(err)
	}
	return object
}
