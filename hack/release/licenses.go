package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
)

// legal matches the names of files that must be passed on with a program.
var legal = regexp.MustCompile(`(?i)^(licen[sc]e|copying|notice|patents)([.-].*)?$`)

// thirdPartyLicenses returns the licenses and notices of all modules that are built into the
// programs. A text that many modules share appears once.
func thirdPartyLicenses(ctx context.Context, src source, programs []program) ([]byte, error) {
	dirs, err := moduleDirs(ctx, src, programs)
	if err != nil {
		return nil, err
	}
	users := map[string][]string{} // by text
	for _, module := range slices.Sorted(maps.Keys(dirs)) {
		texts, err := legalTexts(dirs[module])
		if err != nil {
			return nil, err
		}
		if len(texts) == 0 {
			return nil, fmt.Errorf("%s has no license", module)
		}
		for _, text := range texts {
			users[text] = append(users[text], module)
		}
	}
	scripts, err := readScripts(src)
	if err != nil {
		return nil, err
	}
	for _, s := range scripts {
		users[s.license] = append(users[s.license], s.name+" "+s.version)
	}
	texts := slices.SortedFunc(maps.Keys(users), func(a, b string) int {
		return strings.Compare(users[a][0]+"\n"+a, users[b][0]+"\n"+b)
	})
	var out bytes.Buffer
	for _, text := range texts {
		fmt.Fprintf(&out, "%s\n\n%s\n\n%s\n\n", strings.Repeat("=", 80), strings.Join(users[text], "\n"), strings.TrimSpace(text))
	}
	return out.Bytes(), nil
}

// moduleDirs returns where the sources of the modules in the programs are, by
// path and version.
func moduleDirs(ctx context.Context, src source, programs []program) (map[string]string, error) {
	root, err := output(ctx, src.dir, nil, "go", "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	dirs := map[string]string{"Go's standard library, " + programs[0].info.GoVersion: root}
	var names []string
	for _, p := range programs {
		for _, dep := range p.info.Deps {
			names = append(names, effective(dep).Path)
		}
	}
	slices.Sort(names)
	arguments := []string{"list", "-m", "-f", "{{.Path}} {{.Version}}\t{{.Dir}}"}
	list, err := output(ctx, src.dir, []string{"GOFLAGS=", "GOWORK=off"}, "go", append(arguments, slices.Compact(names)...)...)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(list) {
		module, dir, _ := strings.Cut(strings.TrimSpace(line), "\t")
		if dir == "" {
			return nil, fmt.Errorf("the sources of %s are not in the module cache: run 'go mod download'", module)
		}
		dirs[module] = dir
	}
	return dirs, nil
}

// effective returns the module that was built in.
func effective(m *debug.Module) *debug.Module {
	if m.Replace != nil {
		return m.Replace
	}
	return m
}

func legalTexts(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var texts []string
	for _, entry := range entries {
		if entry.IsDir() || !legal.MatchString(entry.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			return nil, err
		}
		texts = append(texts, string(text))
	}
	return texts, nil
}
