// open_note reads a signed note from its standard input and verifies it with Go's own package.
// Its arguments are verifier keys. It prints a line for each signature that holds, then the text.
package main

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/mod/sumdb/note"
)

func main() {
	var verifiers []note.Verifier
	for _, key := range os.Args[1:] {
		verifier, err := note.NewVerifier(key)
		if err != nil {
			fmt.Println("key:", err)
			os.Exit(2)
		}
		verifiers = append(verifiers, verifier)
	}
	content, err := io.ReadAll(os.Stdin)
	if err != nil {
		fmt.Println("input:", err)
		os.Exit(2)
	}
	opened, err := note.Open(content, note.VerifierList(verifiers...))
	if err != nil {
		fmt.Println("note:", err)
		os.Exit(1)
	}
	for _, signature := range opened.Sigs {
		fmt.Printf("%s %08x\n", signature.Name, signature.Hash)
	}
	fmt.Print("\n", opened.Text)
}
