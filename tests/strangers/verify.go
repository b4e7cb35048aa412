// Checks a book with Go's own packages for notes and trees (golang.org/x/mod/sumdb) and by FORMAT.md; nothing of ours.
//
//	verify book FOLDER VKEY        every line, checkpoint and root; consistency of each checkpoint with the next
//	verify proof VKEY PROOF LINE   a .tlog-proof and the file with the entry's line
//	verify equal FILE              proofs made elsewhere over leaves 0, 1, 2 … (8 bytes, big-endian) equal Go's
package main

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// A tree in memory, in the order Go stores hashes.
type tree struct{ hashes []tlog.Hash }

func (t *tree) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	var found []tlog.Hash
	for _, index := range indexes {
		if index >= int64(len(t.hashes)) {
			return nil, fmt.Errorf("no hash %d", index)
		}
		found = append(found, t.hashes[index])
	}
	return found, nil
}

func (t *tree) add(size int64, record []byte) {
	hashes, err := tlog.StoredHashes(size, record, t)
	must(err)
	t.hashes = append(t.hashes, hashes...)
}

func main() {
	switch {
	case len(os.Args) == 4 && os.Args[1] == "book":
		book(os.Args[2], verifier(os.Args[3]))
	case len(os.Args) == 5 && os.Args[1] == "proof":
		proof(verifier(os.Args[2]), os.Args[3], os.Args[4])
	case len(os.Args) == 3 && os.Args[1] == "equal":
		equal(os.Args[2])
	default:
		refuse("usage")
	}
}

func book(folder string, key note.Verifier) {
	head, err := os.ReadFile(filepath.Join(folder, "BOOK"))
	must(err)
	lines := strings.Split(string(head), "\n")
	if len(lines) != 5 || lines[0] != "countersign book 1" || lines[1] != "origin: "+key.Name() {
		refuse("BOOK is of another book or format")
	}
	segments, err := filepath.Glob(filepath.Join(folder, "journal", strings.Repeat("[0-9]", 20)+".jsonl"))
	must(err)
	sort.Strings(segments)
	var t tree
	var size, signed int64
	var root tlog.Hash
	last := tlog.Hash{}
	for _, segment := range segments {
		if filepath.Base(segment) != fmt.Sprintf("%020d.jsonl", size) {
			refuse("a segment is missing before " + filepath.Base(segment))
		}
		data, err := os.ReadFile(segment)
		must(err)
		if !bytes.HasSuffix(data, []byte("\n")) {
			refuse("the last line does not end")
		}
		for number, line := range bytes.Split(bytes.TrimSuffix(data, []byte("\n")), []byte("\n")) {
			switch {
			case number == 0:
				begins(line, size, key.Name())
			case bytes.HasPrefix(line, []byte("{")):
				var entry struct {
					I    int64
					Prev string
				}
				must(json.Unmarshal(line, &entry))
				if entry.I != size || entry.Prev != "sha256:"+hex.EncodeToString(last[:]) {
					refuse(fmt.Sprintf("entry %d is not in its place", size))
				}
				t.add(size, line)
				last = tlog.RecordHash(line)
				size++
			case bytes.HasPrefix(line, []byte("#cp ")):
				text, err := base64.StdEncoding.DecodeString(string(line[4:]))
				must(err)
				checkpoint := open(text, key)
				computed, err := tlog.TreeHash(size, &t)
				must(err)
				if checkpoint.N != size || checkpoint.Hash != computed || size <= signed {
					refuse(fmt.Sprintf("the checkpoint is not of the %d entries before it", size))
				}
				if signed > 0 {
					grown, err := tlog.ProveTree(size, signed, &t)
					must(err)
					must(tlog.CheckTree(grown, size, computed, signed, root))
				}
				signed, root = size, computed
			default:
				refuse("a line that is neither entry nor checkpoint")
			}
		}
		if signed != size {
			refuse("entries that nobody signed")
		}
	}
	if signed == 0 {
		refuse("nothing is signed")
	}
	for index := int64(0); index < size; index++ {
		path, err := tlog.ProveRecord(size, index, &t)
		must(err)
		must(tlog.CheckRecord(path, size, root, index, t.hashes[tlog.StoredHashIndex(0, index)]))
	}
	fmt.Printf("%d entries, root %s\n", size, root)
}

func begins(line []byte, size int64, origin string) {
	var segment struct {
		First  int64
		Origin string
	}
	if !bytes.HasPrefix(line, []byte("#seg ")) {
		refuse("a segment without its first line")
	}
	must(json.Unmarshal(line[5:], &segment))
	if segment.First != size || segment.Origin != origin {
		refuse("a segment of another place or book")
	}
}

// The tree of a signed checkpoint of exactly three lines.
func open(text []byte, key note.Verifier) tlog.Tree {
	opened, err := note.Open(text, note.VerifierList(key))
	must(err)
	if opened.Sigs[0].Name != key.Name() {
		refuse("the first signature is not the book's")
	}
	lines := strings.Split(opened.Text, "\n")
	if len(lines) != 4 || lines[0] != key.Name() {
		refuse("not a checkpoint of this book")
	}
	size, err := strconv.ParseInt(lines[1], 10, 64)
	must(err)
	root, err := tlog.ParseHash(lines[2])
	must(err)
	if lines[1] != strconv.FormatInt(size, 10) {
		refuse("the size is spelled in another way")
	}
	return tlog.Tree{N: size, Hash: root}
}

func proof(key note.Verifier, file, entry string) {
	text, err := os.ReadFile(file)
	must(err)
	line, err := os.ReadFile(entry)
	must(err)
	parts := strings.SplitN(string(text), "\n\n", 2)
	lines := strings.Split(parts[0], "\n")
	if len(parts) != 2 || len(lines) < 2 || lines[0] != "c2sp.org/tlog-proof@v1" || !strings.HasPrefix(lines[1], "index ") {
		refuse("not a tlog-proof")
	}
	index, err := strconv.ParseInt(strings.TrimPrefix(lines[1], "index "), 10, 64)
	must(err)
	var path tlog.RecordProof
	for _, line := range lines[2:] {
		hash, err := tlog.ParseHash(line)
		must(err)
		path = append(path, hash)
	}
	tree := open([]byte(parts[1]), key)
	must(tlog.CheckRecord(path, tree.N, tree.Hash, index, tlog.RecordHash(line)))
	fmt.Printf("entry %d of %d\n", index, tree.N)
}

func equal(file string) {
	data, err := os.ReadFile(file)
	must(err)
	var t tree
	var size, count int64
	for _, line := range strings.Split(strings.TrimSpace(string(data)), "\n") {
		words := strings.Fields(line)
		a, err := strconv.ParseInt(words[1], 10, 64)
		must(err)
		n, err := strconv.ParseInt(words[2], 10, 64)
		must(err)
		for ; size < n; size++ {
			var leaf [8]byte
			binary.BigEndian.PutUint64(leaf[:], uint64(size))
			t.add(size, leaf[:])
		}
		var hashes []tlog.Hash
		if words[0] == "inclusion" {
			path, err := tlog.ProveRecord(n, a, &t)
			must(err)
			hashes = path
		} else {
			path, err := tlog.ProveTree(n, a, &t)
			must(err)
			hashes = path
		}
		var spelled []string
		for _, hash := range hashes {
			spelled = append(spelled, hex.EncodeToString(hash[:]))
		}
		if strings.Join(spelled, " ") != strings.Join(words[3:], " ") {
			refuse("another proof: " + line)
		}
		count++
	}
	fmt.Printf("%d proofs\n", count)
}

func verifier(vkey string) note.Verifier {
	key, err := note.NewVerifier(vkey)
	must(err)
	return key
}

func must(err error) {
	if err != nil {
		refuse(err.Error())
	}
}

func refuse(why string) {
	fmt.Fprintln(os.Stderr, "refused:", why)
	os.Exit(1)
}
