package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/certplane/certplane/internal/agent/hostcert"
	"github.com/certplane/certplane/internal/agent/manifests"
)

// pods returns the pods of the certificates in the configuration and of the manifests. The
// error names those that cannot be used.
func (c Config) pods() ([]manifests.Pod, error) {
	own, errOwn := hostcert.Pods(c.Certificates)
	read, errRead := manifests.Read(c.ManifestsDir)
	if _, err := os.Lstat(c.ManifestsDir); errors.Is(err, fs.ErrNotExist) && len(c.Certificates) > 0 {
		errRead = nil
	}
	taken := map[string]string{}
	for _, pod := range own {
		taken[pod.Key()] = pod.File
	}
	errs := []error{errOwn, errRead}
	for _, pod := range read {
		if first, is := taken[pod.Key()]; is {
			errs = append(errs, fmt.Errorf("%s: metadata.name: pod %s is %s of the agent's configuration already", pod.File, pod.Key(), first))
			continue
		}
		own = append(own, pod)
	}
	return own, errors.Join(errs...)
}
