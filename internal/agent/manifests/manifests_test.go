package manifests

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// folder creates a folder of files from pairs of name and content.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func pod(name, more string) string {
	return "apiVersion: v1\nkind: Pod\nmetadata: {name: " + name + "}\n" + more
}

// web returns a pod whose volume has the source.
func web(source string) string {
	return pod("web", "spec: {volumes: [{name: tls, projected: {sources: [{"+source+"}]}}]}")
}

const certificate = "podCertificate: {signerName: example.com/s, keyType: ED25519, credentialBundlePath: bundle.pem}"

func TestRead(t *testing.T) {
	dir := folder(t, map[string]string{
		"b.yaml":     "# a comment alone\n---\n" + pod("b", "") + "\n---\n" + pod("c", "spec: {serviceAccountName: sa}"),
		"a.json":     `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "z"}}`,
		".a.yaml":    "an editor's",
		"notes.txt":  "not a manifest",
		"a.yaml~":    "an editor's too",
		"empty.yaml": "",
	})
	pods, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, pod := range pods {
		got = append(got, pod.Key()+" "+pod.Spec.ServiceAccountName+" "+filepath.Base(pod.File)+" "+pod.Spec.Containers[0].Name)
	}
	if diff := cmp.Diff([]string{"default/b default b.yaml host", "default/c sa b.yaml host", "z/a default a.json host"}, got); diff != "" {
		t.Errorf("pods (-want +got):\n%s", diff)
	}
}

// Hashes change with the meaning of a manifest, and not with its formatting.
func TestHash(t *testing.T) {
	hash := func(content string) string {
		pods, err := Read(folder(t, map[string]string{"pod.yaml": content}))
		if err != nil {
			t.Fatal(err)
		}
		return pods[0].Hash
	}
	first := hash(web(certificate))
	if hash("# a comment\n"+web(certificate)) != first {
		t.Error("a comment changes the hash")
	}
	if hash(web(strings.Replace(certificate, "example.com/s", "example.com/t", 1))) == first {
		t.Error("another signer does not change the hash")
	}
}

// One bad file does not affect the others.
func TestBadFileAmongGood(t *testing.T) {
	pods, err := Read(folder(t, map[string]string{"good.yaml": pod("good", ""), "bad.yaml": pod("bad", "specs: {}")}))
	if len(pods) != 1 || pods[0].Name != "good" {
		t.Errorf("pods = %v", pods)
	}
	if err == nil || !strings.Contains(err.Error(), `bad.yaml: unknown field "specs"`) {
		t.Errorf("error = %v", err)
	}
	if _, err := Read(filepath.Join(t.TempDir(), "nosuch")); err == nil {
		t.Error("a missing folder is an empty one")
	}
}

func TestErrorsNameFileAndField(t *testing.T) {
	const source = "spec.volumes[0].projected.sources[0]"
	tests := []struct {
		reason, content, want string
	}{
		{"no YAML", "a: b: c", "yaml"},
		{"twice a field", pod("web", "kind: Pod"), `key "kind" already set`},
		{"another kind", "apiVersion: apps/v1\nkind: Deployment", `"apps/v1" and "Deployment", must be "v1" and "Pod"`},
		{"no name", "apiVersion: v1\nkind: Pod", "metadata.name: Required"},
		{"a bad name", pod("Web", ""), "metadata.name: Invalid"},
		{"another's node", pod("web", "spec: {nodeName: n1}"), "spec.nodeName: Forbidden"},
		{"a slip in a field", web("podCertificate: {signer: example.com/s}"), `unknown field "` + source + `.podCertificate.signer"`},
		{"a second document", pod("web", "") + "\n---\n" + pod("db", "spec: {x: 1}"), `document 2: unknown field "spec.x"`},
		{"a name twice", pod("web", "") + "\n---\n" + pod("web", ""), "pod default/web is listed twice"},
		{"a type", web("podCertificate: {signerName: 7}"), "podCertificate.signerName of type string"},
		{"no downward API", web("downwardAPI: {items: []}"), source + ".downwardAPI: Forbidden: not supported on a host"},
		{"no Secret volumes", pod("web", "spec: {volumes: [{name: s, secret: {secretName: s}}]}"), "spec.volumes[0]: Forbidden: an agent writes only projected volumes"},
		{"no sources", pod("web", "spec: {volumes: [{name: s, projected: {}}]}"), "spec.volumes[0].projected.sources: Required"},
		{"nothing in a source", web(""), source + ": Required"},
		{"two in a source", web("serviceAccountToken: {path: a}, configMap: {name: x}"), source + ": Forbidden: may not specify more than 1"},
		{"no signer", web("podCertificate: {keyType: ED25519, keyPath: a}"), source + ".podCertificate.signerName: Required"},
		{"a bad signer", web("podCertificate: {signerName: s, keyType: ED25519, keyPath: a}"), source + ".podCertificate.signerName: Invalid"},
		{"a bad key type", web("podCertificate: {signerName: example.com/s, keyType: ed25519, keyPath: a}"), source + ".podCertificate.keyType: Unsupported"},
		{"too short", web("podCertificate: {signerName: example.com/s, keyType: ED25519, keyPath: a, maxExpirationSeconds: 3599}"), "maxExpirationSeconds must be >= 3600"},
		{"too long", web("podCertificate: {signerName: example.com/s, keyType: ED25519, keyPath: a, maxExpirationSeconds: 7862401}"), "maxExpirationSeconds must be <= 7862400"},
		{"too long for Kubernetes' own", web("podCertificate: {signerName: kubernetes.io/kube-apiserver-client-pod, keyType: ED25519, keyPath: a, maxExpirationSeconds: 86401}"), "maxExpirationSeconds must be <= 86400"},
		{"no path", web("podCertificate: {signerName: example.com/s, keyType: ED25519}"), source + ".podCertificate: Required"},
		{"an absolute path", web("podCertificate: {signerName: example.com/s, keyType: ED25519, keyPath: /a}"), source + ".podCertificate.keyPath: Invalid"},
		{"out of the volume", web("podCertificate: {signerName: example.com/s, keyType: ED25519, keyPath: a/../../b}"), source + ".podCertificate.keyPath: Invalid"},
		{"reserved", web("podCertificate: {signerName: example.com/s, keyType: ED25519, keyPath: ..data}"), source + ".podCertificate.keyPath: Invalid"},
		{"one path for two", web(certificate + "}, {serviceAccountToken: {path: bundle.pem}"), "sources[1].serviceAccountToken.path: Invalid"},
		{"a path in another", web(certificate + "}, {serviceAccountToken: {path: bundle.pem/a}"), "sources[1].serviceAccountToken.path: Invalid"},
		{"a bundle of nobody", web("clusterTrustBundle: {path: a}"), source + ".clusterTrustBundle: Required"},
		{"a bundle of two", web("clusterTrustBundle: {path: a, name: x, signerName: example.com/s}"), source + ".clusterTrustBundle: Invalid"},
		{"labels of a name", web("clusterTrustBundle: {path: a, name: x, labelSelector: {}}"), source + ".clusterTrustBundle.labelSelector: Invalid"},
		{"bad labels", web("clusterTrustBundle: {path: a, signerName: example.com/s, labelSelector: {matchLabels: {a: '/'}}}"), source + ".clusterTrustBundle.labelSelector"},
		{"a short token", web("serviceAccountToken: {path: a, expirationSeconds: 599}"), source + ".serviceAccountToken.expirationSeconds: Invalid"},
		{"a nameless ConfigMap", web("configMap: {items: [{key: a, path: b}]}"), source + ".configMap.name: Required"},
		{"an item without a key", web("configMap: {name: x, items: [{path: b}]}"), source + ".configMap.items[0].key: Required"},
		{"a mode", pod("web", "spec: {volumes: [{name: s, projected: {defaultMode: 01000, sources: [{"+certificate+"}]}}]}"), "spec.volumes[0].projected.defaultMode: Invalid"},
		{"a user", web("podCertificate: {signerName: example.com/s, keyType: ED25519, keyPath: a, user: -1}"), source + ".podCertificate.user: Invalid"},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			_, err := Read(folder(t, map[string]string{"pod.yaml": tt.content}))
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "pod.yaml: ") {
				t.Errorf("error = %v\nwant pod.yaml and %s\nof %s", err, tt.want, tt.content)
			}
		})
	}
}

func TestDuplicatesAcrossFiles(t *testing.T) {
	_, err := Read(folder(t, map[string]string{"a.yaml": pod("web", ""), "b.yaml": pod("web", "")}))
	if err == nil || !strings.Contains(err.Error(), "b.yaml: metadata.name: pod default/web is in ") {
		t.Errorf("error = %v", err)
	}
}

func TestAcceptsWhatAnAgentCanDo(t *testing.T) {
	pods, err := Read(folder(t, map[string]string{"pod.yaml": `
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, labels: {app: web}, annotations: {note: hello}}
spec:
  serviceAccountName: web
  securityContext: {fsGroup: 1000}
  containers: [{name: web, image: "example.com/web:1", volumeMounts: [{name: tls, mountPath: /tls}]}]
  volumes:
  - {name: scratch, emptyDir: {}}
  - name: tls
    projected:
      defaultMode: 0640
      sources:
      - podCertificate: {signerName: example.com/s, keyType: RSA3072, maxExpirationSeconds: 3600, keyPath: key, certificateChainPath: chain, userAnnotations: {example.com/a: b}}
      - clusterTrustBundle: {signerName: example.com/s, labelSelector: {}, path: ca}
      - clusterTrustBundle: {name: "example.com:s:x", path: extra/ca, optional: true}
      - serviceAccountToken: {path: token, audience: vault, expirationSeconds: 600}
      - configMap: {name: settings, items: [{key: a, path: b, mode: 0444}]}
      - secret: {name: password}
`}))
	if err != nil || len(pods) != 1 {
		t.Fatalf("%v, %v", pods, err)
	}
	if mode := pods[0].Spec.Volumes[1].Projected.DefaultMode; mode == nil || *mode != 0o640 {
		t.Errorf("defaultMode = %v", mode)
	}
}

// Manifests come from files that only root and the agent's user can change.
// Links, as in the mount of a ConfigMap or from a tool, are accepted.
func TestWhoseFiles(t *testing.T) {
	write := func(path string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(pod("web", "")), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		reason string
		make   func(dir, elsewhere string) error
		want   string // "" if the pod is found
	}{
		{"a file", func(dir, _ string) error { write(dir + "/web.yaml"); return nil }, ""},
		{"a link, as in mounts of ConfigMaps", func(dir, _ string) error {
			if err := os.Mkdir(dir+"/..1", 0o755); err != nil {
				return err
			}
			write(dir + "/..1/web.yaml")
			return errors.Join(os.Symlink("..1", dir+"/..data"), os.Symlink("..data/web.yaml", dir+"/web.yaml"))
		}, ""},
		{"a link out of the folder", func(dir, elsewhere string) error {
			write(elsewhere + "/web.yaml")
			return os.Symlink(elsewhere+"/web.yaml", dir+"/web.yaml")
		}, ""},
		{"a link into a folder of all", func(dir, elsewhere string) error {
			write(elsewhere + "/web.yaml")
			return errors.Join(os.Chmod(elsewhere, 0o777), os.Symlink(elsewhere+"/web.yaml", dir+"/web.yaml"))
		}, "users other than its owner can write to "},
		{"a file of all", func(dir, _ string) error {
			write(dir + "/web.yaml")
			return os.Chmod(dir+"/web.yaml", 0o646)
		}, "web.yaml (mode 0646): remove that right with 'chmod go-w'"},
		{"a folder of all", func(dir, _ string) error { write(dir + "/web.yaml"); return os.Chmod(dir, 0o777) }, "users other than its owner can write to "},
		{"a folder of all that keep each other's files", func(dir, _ string) error {
			write(dir + "/web.yaml")
			return os.Chmod(dir, 0o777|os.ModeSticky)
		}, ""},
		{"a pipe that nobody writes to", func(dir, _ string) error { return syscall.Mkfifo(dir+"/web.yaml", 0o600) }, "web.yaml is not a regular file"},
		{"a folder with the name of a manifest", func(dir, _ string) error { return os.Mkdir(dir+"/web.yaml", 0o755) }, "web.yaml is not a regular file"},
		{"a link that leads to itself", func(dir, _ string) error { return os.Symlink("web.yaml", dir+"/web.yaml") }, "too many levels of symbolic links"},
		{"a device", func(dir, _ string) error { return os.Symlink("/dev/zero", dir+"/web.yaml") }, "users other than its owner"},
		{"a file without end", func(dir, _ string) error {
			write(dir + "/web.yaml")
			return os.Truncate(dir+"/web.yaml", maxFile+1)
		}, "web.yaml is larger than "},
		{"a user's file", func(dir, _ string) error {
			write(dir + "/web.yaml")
			return os.Chown(dir+"/web.yaml", 65534, -1)
		}, "web.yaml belongs to user 65534, who could use it to read files of any owner"},
		{"a user's folder", func(dir, _ string) error { write(dir + "/web.yaml"); return os.Chown(dir, 65534, -1) }, "belongs to user 65534"},
		{"a link of a user's", func(dir, elsewhere string) error {
			write(elsewhere + "/web.yaml")
			return errors.Join(os.Symlink(elsewhere+"/web.yaml", dir+"/web.yaml"), os.Lchown(dir+"/web.yaml", 65534, -1))
		}, "web.yaml belongs to user 65534"},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			if strings.Contains(tt.want, "65534") && os.Geteuid() != 0 {
				t.Skip("only root can give files to other users")
			}
			dir, elsewhere := t.TempDir(), t.TempDir()
			if err := tt.make(dir, elsewhere); err != nil {
				t.Fatal(err)
			}
			pods, err := Read(dir)
			if tt.want == "" && (err != nil || len(pods) != 1) {
				t.Errorf("%d pods, %v", len(pods), err)
			}
			if tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want) || len(pods) > 0) {
				t.Errorf("%d pods, %v; want %s", len(pods), err, tt.want)
			}
		})
	}
}

// lists returns a pod with a volume "tls", and the annotation for it.
func lists(annotation string) string {
	return "apiVersion: v1\nkind: Pod\nmetadata: {name: web, annotations: {revocationlists.certplane.dev/tls: '" + annotation + "'}}\n" +
		"spec: {volumes: [{name: tls, projected: {sources: [{" + certificate + "}]}}, {name: cache, emptyDir: {}}]}"
}

func TestRevocationLists(t *testing.T) {
	pods, err := Read(folder(t, map[string]string{"web.yaml": lists("example.com/s=crl.pem example.com/s=etcd/crl.der,der example.com/t=t.pem")}))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]RevocationLists{"tls": {
		{Signer: "example.com/s", Path: "crl.pem"}, {Signer: "example.com/s", Path: "etcd/crl.der", DER: true}, {Signer: "example.com/t", Path: "t.pem"},
	}}
	if diff := cmp.Diff(want, pods[0].Lists); diff != "" {
		t.Errorf("lists (-want +got):\n%s", diff)
	}
	const form = "must be SIGNER=PATH or SIGNER=PATH,der"
	for annotation, want := range map[string]string{
		"": "Required value: " + form, "crl.pem": form, "signer=crl.pem": form, "example.com/s=": form, "example.com/s=,der": form, "example.com/s=crl.der,pem": form,
		"example.com/s=../crl.pem":                "must not contain '..'",
		"example.com/s=bundle.pem":                `is the path of spec.volumes[0].projected.sources[0].podCertificate.credentialBundlePath too`,
		"example.com/s=a.pem example.com/t=a.pem": `is the path of metadata.annotations[revocationlists.certplane.dev/tls] too`,
	} {
		_, err := Read(folder(t, map[string]string{"web.yaml": lists(annotation)}))
		if err == nil || !strings.Contains(err.Error(), "metadata.annotations[revocationlists.certplane.dev/tls]: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", annotation, err, want)
		}
	}
	for _, volume := range []string{"/cache:", "/nosuch:"} {
		_, err := Read(folder(t, map[string]string{"web.yaml": strings.Replace(lists("example.com/s=crl.pem"), "/tls:", volume, 1)}))
		if err == nil || !strings.Contains(err.Error(), "is not the name of a projected volume of the pod") {
			t.Errorf("%s %v", volume, err)
		}
	}
}
