package vault

import (
	"os"
	"strings"
	"testing"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// page is the page about Vault issuers.
const page = "../../../docs/vault.md"

// With a server configured by the page's commands, the page's issuers are ready, and its
// Certificate is issued.
func TestPage(t *testing.T) {
	sharedVault(t)
	p := ownVault(t) // the page names mounts
	w := newWorld(t, p)
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	replaced := strings.NewReplacer("vault://default/vault", "vault://"+w.namespace+"/account", "bound_service_account_namespaces=default",
		"bound_service_account_namespaces="+w.namespace, "namespace: default", "namespace: "+w.namespace).Replace(string(text))
	fields := map[string]string{}
	for _, block := range blocks(replaced) {
		for _, command := range commands(block) {
			if strings.HasPrefix(command, "vault write auth/kubernetes/config ") { // with files
				w.configureKubernetes("kubernetes")
				continue
			}
			p.command(t, command, fields)
		}
	}
	for _, field := range []string{"role_id", "secret_id"} {
		if fields[field] == "" {
			t.Fatalf("the page's commands print no %s", field)
		}
	}
	w.secret("vault-approle", map[string]string{"secretId": fields["secret_id"]})
	made := map[string]bool{}
	for _, block := range blocks(replaced) {
		for _, o := range w.objects(block) {
			if issuer, ok := o.(*cmv1.Issuer); ok {
				issuer.Spec.Vault.Server, issuer.Spec.Vault.CABundle = w.proxy.URL, w.proxy.bundle
				issuer.Spec.Vault.Auth.AppRole.RoleId = fields["role_id"]
			}
			made[o.GetObjectKind().GroupVersionKind().Kind] = true // a client forgets it
			w.create(o)
		}
	}
	for _, kind := range []string{"Issuer", "Certificate", "Role", "RoleBinding"} {
		if !made[kind] {
			t.Errorf("the page has no %s", kind)
		}
	}
	w.ready(w.issuerNamed("vault"))
	w.certificateIs(&cmv1.Certificate{ObjectMeta: w.meta("web")}, cmv1.CertificateConditionReady)

	// The login by a service account, with the rights of the page.
	w.create(&corev1.ServiceAccount{ObjectMeta: w.meta("vault-login")})
	spec := w.spec(cmv1.VaultAuth{})
	spec.Path = "pki/sign/web"
	for _, block := range blocks(replaced) {
		if strings.HasPrefix(block, "kubernetes:") && strings.Contains(block, "serviceAccountRef") {
			if err := yaml.UnmarshalStrict([]byte(block), &spec.Auth); err != nil {
				t.Fatal(err)
			}
		}
	}
	if spec.Auth.Kubernetes == nil {
		t.Fatal("the page has no login by a service account")
	}
	w.ready(w.issuer("account", spec))
	w.certificate("account", "account")
}

// blocks returns the code blocks of a page in Markdown.
func blocks(text string) []string {
	var all []string
	for i, part := range strings.Split(text, "\n```") {
		if i%2 == 1 {
			_, code, _ := strings.Cut(part, "\n") // without the language
			all = append(all, code)
		}
	}
	return all
}

// commands returns the commands of the program vault in a block, each with its
// here-document.
func commands(block string) []string {
	var all []string
	lines := strings.Split(block, "\n")
	for i := 0; i < len(lines); i++ {
		command := lines[i]
		if !strings.HasPrefix(command, "vault ") {
			continue
		}
		if strings.HasSuffix(command, "<<'END'") {
			for i++; lines[i] != "END"; i++ {
				command += "\n" + lines[i]
			}
		}
		all = append(all, command)
	}
	return all
}

// command makes the call that a command of the program vault makes. Fields that
// it would print are stored.
func (p *peer) command(t *testing.T, command string, fields map[string]string) {
	t.Helper()
	line, document, _ := strings.Cut(command, "\n")
	words := wordsOf(line)[1:]
	field := ""
	body := map[string]any{}
	var rest []string
	for _, word := range words {
		name, value, isPair := strings.Cut(word, "=")
		switch {
		case strings.HasPrefix(word, "-field="):
			field = value
		case strings.HasPrefix(word, "-max-lease-ttl="):
			body["max_lease_ttl"] = value
		case isPair:
			body[name] = value
		case strings.HasPrefix(word, "-") || strings.HasPrefix(word, "<<"):
		default:
			rest = append(rest, word)
		}
	}
	var data map[string]any
	switch verb := strings.Join(rest[:len(rest)-1], " "); verb {
	case "secrets enable":
		p.write(t, "sys/mounts/"+rest[2], map[string]any{"type": rest[2]})
	case "secrets tune":
		p.write(t, "sys/mounts/"+rest[2]+"/tune", body)
	case "auth enable":
		p.write(t, "sys/auth/"+rest[2], map[string]any{"type": rest[2]})
	case "policy write":
		p.write(t, "sys/policies/acl/"+rest[2], map[string]any{"policy": document})
	case "write":
		data = p.write(t, rest[1], body)
	case "read":
		data = p.read(t, rest[1])
	default:
		t.Fatalf("the test does not know the command %q", line)
	}
	if field == "" {
		return
	}
	value, ok := data[field].(string)
	if !ok {
		t.Fatalf("%q prints no %s", line, field)
	}
	fields[field] = value
}

// objects returns the objects of the API in a block.
func (w *world) objects(block string) []client.Object {
	w.t.Helper()
	if _, document, ok := strings.Cut(block, "<<'END'\n"); ok {
		block, _, _ = strings.Cut(document, "\nEND")
	}
	if !strings.HasPrefix(block, "apiVersion: ") {
		return nil
	}
	decoder := serializer.NewCodecFactory(w.kinds).UniversalDeserializer()
	var all []client.Object
	for text := range strings.SplitSeq(block, "\n---\n") {
		found, _, err := decoder.Decode([]byte(text), nil, nil)
		if err != nil {
			w.t.Fatalf("%v in\n%s", err, text)
		}
		all = append(all, found.(client.Object))
	}
	return all
}

// wordsOf returns the words of a command line; those in double quotes have
// spaces.
func wordsOf(line string) []string {
	quoted := false
	words := strings.FieldsFunc(line, func(c rune) bool {
		if c == '"' {
			quoted = !quoted
		}
		return c == ' ' && !quoted
	})
	for i := range words {
		words[i] = strings.ReplaceAll(words[i], "\"", "")
	}
	return words
}
