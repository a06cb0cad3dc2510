// Package textclean cleans a prompt as the pipelines of a release do before they
// hand it to a tokenizer.
//
// Wan cleans what others read as it is: its own code and diffusers' pipelines repair
// the text with the library ftfy, undo HTML's escapes twice, and make every run of
// white space one space. FixText has the repairs of ftfy 6.3.1's fix_text with its
// defaults, except one: text that was decoded by the wrong encoding ("cafÃ©" for
// "café", called mojibake) is left as it is, and Wan says in a note that it looks so.
package textclean
