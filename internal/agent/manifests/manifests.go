// Package manifests reads the pods that a folder of files describes.
package manifests

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/certplane/certplane/internal/agent/safepath"
)

// Pod is a pod that a file describes.
type Pod struct {
	// File is the path of the file.
	File string
	// Pod is the pod in the file, with a namespace and a service account.
	*corev1.Pod
	// Hash is a digest of the manifest's content. It changes when the content
	// does.
	Hash string
	// Lists are the files with revocation lists, by the name of their volume.
	Lists map[string][]RevocationLists
	// Dirs are the folders of volumes, by name, that are not in the folder of
	// all volumes. No file can set them.
	Dirs map[string]string
}

// New returns the pod with the values that a manifest may leave out, or an
// error for each of its fields that the API would refuse or that an agent
// cannot handle.
func New(pod *corev1.Pod) (Pod, field.ErrorList) {
	complete(pod)
	if errs := validate(pod); len(errs) > 0 {
		return Pod{}, errs
	}
	lists, errs := listsOf(pod)
	if len(errs) > 0 {
		return Pod{}, errs
	}
	return Pod{Pod: pod, Hash: hash(pod), Lists: lists}, nil
}

// Key returns the pod's namespace and name.
func (p Pod) Key() string { return p.Namespace + "/" + p.Name }

// Read returns the pods of all *.yaml, *.yml and *.json files in dir, ordered by namespace
// and name. It skips invalid files as a whole; the error joins the reasons for all of them.
// It ignores hidden files, which editors leave behind.
//
// A user who can write a manifest can read files of any owner and use all rights of this
// host. So the folder, its files, and the targets of links in it must belong to root or to
// the user of this process.
func Read(dir string) ([]Pod, error) {
	entries, err := list(dir)
	if err != nil {
		return nil, fmt.Errorf("reading the manifests: %w", err)
	}
	var pods []Pod
	var errs []error
	owners := map[string]string{}
	for _, entry := range entries {
		if !isManifest(entry.Name()) {
			continue
		}
		found, err := readFile(filepath.Join(dir, entry.Name()))
		if err == nil {
			err = claim(owners, found)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		pods = append(pods, found...)
	}
	slices.SortFunc(pods, func(a, b Pod) int { return strings.Compare(a.Key(), b.Key()) })
	return pods, errors.Join(errs...)
}

// trust allows private groups, because an agent that a user tries out works in
// that user's folders.
var trust = safepath.Rule{PrivateGroup: true}

// maxFile is the largest size of a file, enough for thousands of pods.
const maxFile = 16 << 20

func list(dir string) ([]os.DirEntry, error) {
	resolved, strangers, err := trust.Dir(dir)
	if err == nil {
		err = refuse(strangers)
	}
	if err != nil {
		return nil, err
	}
	return os.ReadDir(resolved)
}

func refuse(strangers []safepath.Stranger) error {
	if len(strangers) == 0 {
		return nil
	}
	return fmt.Errorf("%s belongs to user %d, who could use it to read files of any owner: give it to root or to the agent's user with 'chown'",
		strangers[0].Path, strangers[0].UID)
}

func isManifest(name string) bool {
	return !strings.HasPrefix(name, ".") && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name))
}

// claim returns an error for a second pod of the same name, in the same file or
// in another.
func claim(owners map[string]string, pods []Pod) error {
	for i, pod := range pods {
		if first, taken := owners[pod.Key()]; taken {
			return fmt.Errorf("%s: metadata.name: pod %s is in %s already", pod.File, pod.Key(), first)
		}
		for _, other := range pods[:i] {
			if other.Key() == pod.Key() {
				return fmt.Errorf("%s: metadata.name: pod %s is listed twice", pod.File, pod.Key())
			}
		}
	}
	for _, pod := range pods {
		owners[pod.Key()] = pod.File
	}
	return nil
}

func readFile(path string) ([]Pod, error) {
	data, strangers, err := trust.Read(path, maxFile)
	if err == nil {
		err = refuse(strangers)
	}
	if err != nil {
		return nil, err
	}
	pods, err := parse(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for i := range pods {
		pods[i].File = path
	}
	return pods, nil
}

// parse returns the pods of a file's YAML documents. JSON is YAML.
func parse(data []byte) ([]Pod, error) {
	var pods []Pod
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for n := 1; ; n++ {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return pods, nil
		}
		if err != nil {
			return nil, err
		}
		pod, err := parsePod(document)
		if err != nil && n > 1 {
			err = fmt.Errorf("document %d: %w", n, err)
		}
		if err != nil {
			return nil, err
		}
		if pod != nil {
			pods = append(pods, *pod)
		}
	}
}

// parsePod parses a document. It returns nil for a document without content.
func parsePod(document []byte) (*Pod, error) {
	asJSON, err := yaml.YAMLToJSONStrict(document)
	if err != nil {
		return nil, err
	}
	if string(asJSON) == "null" {
		return nil, nil
	}
	if err := checkKind(asJSON); err != nil {
		return nil, err
	}
	pod := &corev1.Pod{}
	strictErrs, err := kjson.UnmarshalStrict(asJSON, pod)
	if err != nil {
		return nil, err
	}
	if len(strictErrs) > 0 {
		return nil, strictErrs[0]
	}
	made, errs := New(pod)
	if len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	return &made, nil
}

func checkKind(asJSON []byte) error {
	var header metav1.TypeMeta
	if err := kjson.UnmarshalCaseSensitivePreserveInts(asJSON, &header); err != nil {
		return err
	}
	if header.APIVersion != "v1" || header.Kind != "Pod" {
		return fmt.Errorf("apiVersion and kind are %q and %q, must be %q and %q", header.APIVersion, header.Kind, "v1", "Pod")
	}
	return nil
}

// The container of a pod that names none: the agent does not manage what runs
// on the host, but a Pod must have a container.
const (
	hostContainer = "host"
	hostImage     = "none"
)

// complete fills in the values that a manifest may leave out. The API's own
// defaults are not set here, so that a mode that the manifest sets can be
// distinguished from a default.
func complete(pod *corev1.Pod) {
	if pod.Namespace == "" {
		pod.Namespace = metav1.NamespaceDefault
	}
	if pod.Spec.ServiceAccountName == "" {
		pod.Spec.ServiceAccountName = pod.Spec.DeprecatedServiceAccount
	}
	if pod.Spec.ServiceAccountName == "" {
		pod.Spec.ServiceAccountName = "default"
	}
	pod.Spec.DeprecatedServiceAccount = ""
	if len(pod.Spec.Containers) == 0 {
		pod.Spec.Containers = []corev1.Container{{Name: hostContainer, Image: hostImage}}
	}
}

func hash(pod *corev1.Pod) string {
	data, err := json.Marshal(pod)
	if err != nil { // impossible: the pod came from JSON
		panic(err)
	}
	digest := sha256.Sum256(data)
	return hex.EncodeToString(digest[:16])
}
