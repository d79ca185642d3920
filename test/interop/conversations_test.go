package interop

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"text/template"
)

// TestConversationsAreKubernetes sends the calls in testdata, in their order,
// to both servers. Each file is one conversation: calls that begin with "###"
// and their topic, then the method and the path, headers, an empty line and a
// body in YAML. "Retry-Until" is not a header: it is what the answer contains
// once a server has seen enough from its watches. Lines before the first call
// are remarks.
func TestConversationsAreKubernetes(t *testing.T) {
	servers := startServers(t,
		"--feature-gates=ClusterTrustBundle=true,ClusterTrustBundleProjection=true,PodCertificateRequest=true",
		"--runtime-config=certificates.k8s.io/v1beta1=true")
	files, err := filepath.Glob("testdata/*.http")
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no conversations: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".http"), func(t *testing.T) {
			for _, c := range conversation(t, file) {
				t.Run(c.about, func(t *testing.T) { servers.same(t, c.call) })
			}
		})
	}
}

type namedCall struct {
	about string
	call  call
}

// functions make what would be too long to write down. Certificates with the
// same name are the same in the whole conversation; "lines" makes text part of
// a string.
func functions(t *testing.T) template.FuncMap {
	roots := map[string]string{}
	return template.FuncMap{
		"repeat": strings.Repeat,
		"root": func(name string) string {
			if roots[name] == "" {
				roots[name] = newCA(t, name).certificate
			}
			return roots[name]
		},
		"leaf":    func() string { return selfSigned },
		"replace": func(from, to, text string) string { return strings.Replace(text, from, to, 1) },
		"lines":   func(text string) string { return strings.ReplaceAll(text, "\n", `\n`) },
		// The same certificate with other line breaks.
		"unwrapped": func(text string) string {
			text = strings.ReplaceAll(text, "\n", "")
			return strings.NewReplacer("BEGIN CERTIFICATE-----", "BEGIN CERTIFICATE-----\n", "-----END", "\n-----END").Replace(text) + "\n"
		},
	}
}

func conversation(t *testing.T, file string) []namedCall {
	t.Helper()
	parsed, err := template.New(filepath.Base(file)).Funcs(functions(t)).ParseFiles(file)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := parsed.Execute(&text, nil); err != nil {
		t.Fatal(err)
	}
	var calls []namedCall
	for _, section := range strings.Split("\n"+text.String(), "\n### ")[1:] {
		about, rest, _ := strings.Cut(section, "\n")
		calls = append(calls, namedCall{about, parseCall(t, about, rest)})
	}
	return calls
}

func parseCall(t *testing.T, about, text string) call {
	t.Helper()
	head, content, _ := strings.Cut(text, "\n\n")
	lines := strings.Split(strings.TrimSpace(head), "\n")
	method, path, ok := strings.Cut(lines[0], " ")
	if !ok || !strings.HasPrefix(path, "/") {
		t.Fatalf("%s: %q is no method and path", about, lines[0])
	}
	c := call{method: method, path: path, header: http.Header{}}
	for _, line := range lines[1:] {
		name, value, ok := strings.Cut(line, ": ")
		if !ok {
			t.Fatalf("%s: %q is no header", about, line)
		}
		if name == "Retry-Until" {
			c.until = value
			continue
		}
		c.header.Add(name, value)
	}
	if content = strings.TrimSpace(content); content != "" {
		c.body = content
		if c.header.Get("Content-Type") == "" {
			c.contentType = "application/yaml"
		}
	}
	return c
}
